package doctor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"steerpoint/cmd/steer/internal/text"
	"steerpoint/internal/pki"
)

// Certificate checks the life that a node's certificate has left: the node renews it when a third of it is.
func Certificate(expires time.Time, life time.Duration, now time.Time) Check {
	return func(context.Context) []Result {
		left := expires.Sub(now)
		what := fmt.Sprintf("it ends at %s (%s)", expires.Local().Format("2006-01-02 15:04"), text.Ago(now, expires))
		switch {
		case left < -pki.RenewWithin:
			return one("certificate", Fail, what+"; it cannot be renewed any more", "remove the node at control, and join again with a new token")
		case left < 0:
			return one("certificate", Fail, what, "start the node: it renews it as soon as it reaches control")
		case left < life/4: // a third is usual for a moment
			return one("certificate", Warn, what+", and should have been renewed", "look at the log of the node for why it was not")
		}
		return one("certificate", OK, what, "")
	}
}

// maxAnswer bounds what is read of a server that may not be ours.
const maxAnswer = 64 << 10

// Control checks that a node's control is reached at url, is the right one, and takes the node's certificate; and how
// far the two clocks differ. The call it makes is one that control refuses for what is in it, after it has looked at
// the certificate: nothing changes by it.
func Control(url string, authority []byte, cert *tls.Certificate) Check {
	return func(ctx context.Context) []Result {
		name := "control " + url
		root, err := pki.ParseAuthority(authority)
		if err != nil {
			return one(name, Fail, err.Error(), "join again with a new token")
		}
		pool := x509.NewCertPool()
		pool.AddCert(root)
		ctx, cancel := context.WithTimeout(ctx, Timeout)
		defer cancel()
		began := time.Now()
		refusal, date, err := ask(ctx, url, pool, cert)
		took := time.Since(began)
		var refused *pki.Refusal
		switch {
		case errors.As(err, &refused):
			return one(name, Fail, refused.What+" ["+refused.Code+"]", refused.Do)
		case err != nil:
			return one(name, Fail, "it is not reached: "+err.Error(), "is it running, and its port open to this machine? The node goes on by what it has")
		case refusal != nil && refusal.Code != pki.BadRequest:
			return append(one(name, Fail, refusal.What+" ["+refusal.Code+"]", refusal.Do), offset(date, began, took)...)
		}
		return append(one(name, OK, "it takes this node's certificate; answered in "+text.Span(took), ""), offset(date, began, took)...)
	}
}

// ask makes the call, and gives control's refusal and the time on its clock.
func ask(ctx context.Context, url string, pool *x509.CertPool, cert *tls.Certificate) (*pki.Refusal, time.Time, error) {
	transport := &http.Transport{
		ForceAttemptHTTP2: true, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*cert},
			// Names of hosts mean nothing inside of a cluster: VerifyControl asks whether this is control.
			InsecureSkipVerify: true,
			VerifyConnection:   func(s tls.ConnectionState) error { return pki.VerifyControl(pool, s.PeerCertificates) },
		},
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(url, "/")+"/v1/ack", strings.NewReader("{}"))
	if err != nil {
		return nil, time.Time{}, err
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer res.Body.Close()
	date, _ := http.ParseTime(res.Header.Get("Date")) // zero: it does not say
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, date, err
	}
	if res.StatusCode < http.StatusBadRequest {
		return nil, date, nil
	}
	var r pki.Refusal
	if err := json.Unmarshal(body, &r); err != nil || r.Code == "" {
		return nil, date, fmt.Errorf("what answers there is not control (%s)", res.Status)
	}
	return &r, date, nil
}

// wrongClock is when a difference is worth a word; nothing that decides looks at a node's clock.
const wrongClock = time.Minute

// offset compares this machine's clock with the second that control's answer names.
func offset(date, began time.Time, took time.Duration) []Result {
	if date.IsZero() {
		return nil
	}
	off := began.Add(took / 2).Sub(date).Truncate(time.Second)
	if max(off, -off) < wrongClock {
		return one("clock to control", OK, "the same within "+text.Span(max(off, -off)+time.Second), "")
	}
	way := "ahead of"
	if off < 0 {
		way = "behind"
	}
	return one("clock to control", Warn, fmt.Sprintf("this clock is %s %s control's; nothing decides by it, but the logs are wrong", text.Span(max(off, -off)), way),
		"run an NTP client here, or there")
}

// Following asks the running node, at the address of its health port, what it follows and answers by.
func Following(health string, roles []string) Check {
	return func(ctx context.Context) []Result {
		if health == "" {
			return one("node", Warn, "it is not running", "steer node")
		}
		ctx, cancel := context.WithTimeout(ctx, Timeout)
		defer cancel()
		m, err := scrape(ctx, "http://"+health+"/metrics")
		if err != nil {
			return one("node", Warn, "the running node does not answer: "+err.Error(), "look at its log")
		}
		var rs []Result
		for _, role := range roles {
			level, what := OK, "follows control"
			if m[`steer_agent_connected{snapshot="`+role+`"}`] == 0 {
				level, what = Warn, "does not follow control now"
			}
			switch role {
			case "dns":
				switch version := m["steer_authdns_map_version"]; {
				case version == 0:
					level, what = Fail, what+"; it has no map and answers SERVFAIL"
				default:
					what += fmt.Sprintf("; answers by map %.0f, made %s ago", version, text.Span(time.Duration(m["steer_authdns_map_age_seconds"])*time.Second))
				}
			case "edge":
				if version := m["steer_edge_snapshot_version"]; version > 0 {
					what += fmt.Sprintf("; serves by snapshot %.0f", version)
				} else {
					level, what = Fail, what+"; it has no snapshot and answers 503"
				}
			default:
				if n := m["steer_agent_spool_observations"]; n > 0 {
					what += fmt.Sprintf("; %.0f observations wait for control", n)
				}
			}
			do := ""
			if level != OK {
				do = "look at the check of control above, and at the node's log"
			}
			rs = append(rs, Result{Check: "role " + role, Level: level, Detail: what, Do: do})
		}
		return rs
	}
}

// scrape reads metrics without time stamps, by their name and labels as they are written.
func scrape(ctx context.Context, url string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for s := bufio.NewScanner(bytes.NewReader(body)); s.Scan(); {
		name, value, ok := cutLast(s.Text(), ' ')
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil && !strings.HasPrefix(name, "#") {
			out[name] = n
		}
	}
	return out, nil
}

func cutLast(s string, sep byte) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}
