// Package locate finds the server a command talks to and the data folder of this machine, and records where a
// running process listens so that later commands find it.
package locate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/internal/atomicfile"
	"steerpoint/internal/folder"
)

// Names of files in the data folder.
const (
	tokenFile = "admin.token" // written by control, 0600
	runFile   = "run.state"   // where the process that uses the folder listens
	caFile    = "ca/ca.crt"   // the certificate of the cluster's authority, written by control
)

// ErrGone is matched when the process that ran on the data folder ended without saying so: it was killed, or broke down.
var ErrGone = errors.New("it was killed, or broke down")

// Options are the places to look, as the command line gives them. Empty fields fall back to the environment.
type Options struct {
	Server, Token, Data, CA string
	Env                     func(string) string
}

// Server is an API to talk to. CA is a file with the authority that vouches for it, Authority its certificate in PEM; both
// "": those the system trusts.
type Server struct{ URL, Token, CA, Authority string }

// Running is what a process writes about itself to its data folder.
type Running struct {
	PID       int               `json:"pid"` // 0: it has stopped; where it listened is kept for the next start
	Started   time.Time         `json:"started"`
	Listeners map[string]string `json:"listeners"`        // bound addresses by role
	Secure    bool              `json:"secure,omitempty"` // the API is TLS, by the authority in the folder
	Demo      json.RawMessage   `json:"demo,omitempty"`
}

const (
	runKind    = "run"
	runVersion = 1
)

// DataDir is the data folder: the option, $STEER_DATA, $XDG_DATA_HOME/steerpoint, or ~/.local/share/steerpoint.
func (o Options) DataDir() (string, error) {
	if o.Data != "" {
		return o.Data, nil
	}
	if d := o.Env("STEER_DATA"); d != "" {
		return d, nil
	}
	if d := o.Env("XDG_DATA_HOME"); filepath.IsAbs(d) { // the XDG specification: a relative path is to be ignored
		return filepath.Join(d, "steerpoint"), nil
	}
	home := o.Env("HOME")
	if home == "" {
		return "", fault.BadInput("NO_DATA_DIR", "no data folder is known", "neither --data, STEER_DATA, XDG_DATA_HOME nor HOME is set", "give --data DIR")
	}
	return filepath.Join(home, ".local", "share", "steerpoint"), nil
}

// Find gives the API to talk to: --server or $STEER_SERVER; then the login, unless a folder is named with --data; otherwise
// the process that uses the data folder.
func (o Options) Find() (Server, error) {
	s := Server{
		URL: first(o.Server, o.Env("STEER_SERVER")), Token: first(o.Token, o.Env("STEER_TOKEN")), CA: first(o.CA, o.Env("STEER_CA")),
	}
	if s.URL != "" {
		u, err := parse(s.URL)
		if err != nil {
			return s, err
		}
		if s.Token == "" {
			s.Token = o.ownToken(u.Host)
		}
		o.remembered(&s)
		return s, nil
	}
	if o.Data == "" {
		if l, ok, err := o.fromLogin(s); ok || err != nil {
			return l, err
		}
	}
	dir, err := o.DataDir()
	if err != nil {
		return s, err
	}
	r, err := ReadRunning(dir)
	if err != nil {
		return s, o.none(dir, err)
	}
	if r.PID == 0 {
		return s, o.none(dir, errors.New("nothing runs on the data folder "+dir+" now"))
	}
	if err := r.holds(dir); err != nil {
		return s, o.none(dir, err)
	}
	if r.Listeners["api"] == "" {
		return s, o.none(dir, errors.New("the process on this folder has no API"))
	}
	s.URL = "http://" + r.Listeners["api"]
	if r.Secure {
		s.URL = "https://" + onThisMachine(r.Listeners["api"])
		s.CA = first(s.CA, filepath.Join(dir, caFile))
	}
	if s.Token == "" {
		if s.Token, err = readToken(dir); err != nil {
			return s, o.none(dir, err)
		}
	}
	return s, nil
}

// parse reads the URL of a server. Without TLS the token would cross the network for everybody to read: that is only
// for this machine.
func parse(server string) (*url.URL, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.BadInput("SERVER_URL", fmt.Sprintf("%q is not the URL of a server", server), "", "give it like http://127.0.0.1:7070, or https://HOST:7070")
	}
	if u.Scheme == "http" && !Loopback(u.Host) {
		return nil, fault.BadInput("SERVER_URL", fmt.Sprintf("%q would send the token over the network unprotected", server),
			"the API of steer is TLS except on loopback", fmt.Sprintf("write https://%s, and give its authority with --ca FILE", u.Host))
	}
	return u, nil
}

// Loopback reports whether an address, with or without a port, is only on this machine.
func Loopback(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.Trim(hostPort, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// onThisMachine is where a listener is reached from the machine it is on: one on every address is on loopback too.
func onThisMachine(listener string) string {
	host, port, err := net.SplitHostPort(listener)
	if err != nil {
		return listener
	}
	switch a, err := netip.ParseAddr(host); {
	case err != nil || !a.IsUnspecified():
		return listener
	case a.Is4():
		return net.JoinHostPort("127.0.0.1", port)
	}
	return net.JoinHostPort("::1", port)
}

// holds says why the process that wrote r is not the one that has the folder now. Where a process listened that was killed,
// any user of the machine can listen by now, so nothing is sent there.
func (r Running) holds(dir string) error {
	switch pid, held, err := folder.Owner(dir); {
	case err != nil:
		return err
	case !held:
		return fmt.Errorf("nothing runs on the data folder %s now; process %d did: %w", dir, r.PID, ErrGone)
	case pid != r.PID:
		return fmt.Errorf("process %d has the data folder %s and has not said yet where it listens", pid, dir)
	}
	return nil
}

// ownToken is the token of the data folder if host is where that folder's process listens: the token of one server
// is never sent to another.
func (o Options) ownToken(host string) string {
	dir, err := o.DataDir()
	if err != nil {
		return ""
	}
	r, err := ReadRunning(dir)
	if err != nil || r.Listeners["api"] != host || r.holds(dir) != nil {
		return ""
	}
	token, err := readToken(dir)
	if err != nil {
		return ""
	}
	return token
}

func (o Options) none(dir string, err error) error {
	why := err.Error()
	if errors.Is(err, fs.ErrNotExist) {
		why = "nothing has run on the data folder " + dir
	}
	return &fault.Error{
		Exit: fault.ExitNoServer, Code: "SERVER_UNKNOWN", What: "no server is known", Why: why,
		Do: "start one with `steer up`, or name one with --server URL --token T, `steer login`, or its folder with --data DIR", Err: err,
	}
}

func readToken(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, tokenFile))
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// WriteRunning records where this process listens.
func WriteRunning(dir string, r Running) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("run file: %w", err)
	}
	return atomicfile.Write(filepath.Join(dir, runFile), runKind, runVersion, b)
}

// ReadRunning reads what the process that uses dir, or used it last, recorded.
func ReadRunning(dir string) (Running, error) {
	var r Running
	_, b, err := atomicfile.Read(filepath.Join(dir, runFile), runKind, runVersion)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("run file: %w", err)
	}
	return r, nil
}

// Alive reports whether the process that wrote r still runs. Another process may have taken its number since; then the
// data folder's lock, and not this, decides.
func (r Running) Alive() bool {
	return r.PID > 0 && !errors.Is(syscall.Kill(r.PID, 0), syscall.ESRCH)
}

// SetDemo records how to reach the demo of this process.
func (r *Running) SetDemo(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("run file: %w", err)
	}
	r.Demo = b
	return nil
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
