package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steerpoint/cmd/steer/internal/fault"
	"steerpoint/cmd/steer/internal/input"
	"steerpoint/cmd/steer/internal/render"
	"steerpoint/cmd/steer/internal/text"
	"steerpoint/control"
	"steerpoint/control/api"
	"steerpoint/edge/explain"
	"steerpoint/snapshot"
	"steerpoint/spec"
)

// gatewayQuestion is what flags say of a request to a gateway.
type gatewayQuestion struct {
	files, down, latency     []string
	header                   []string
	method, country, session string
	node                     string
	offline                  bool
}

func (g *gatewayQuestion) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVarP(&g.files, "file", "f", nil, "of a URL: file or folder of resources (-: standard input) instead of those of the server")
	f.StringArrayVar(&g.header, "header", nil, "of a URL: header of the request, \"Name: value\"; may be given again")
	f.StringVar(&g.method, "method", "", "of a URL: method of the request (default GET)")
	f.StringVar(&g.country, "country", "", "of a URL: country of the visitor, such as DE")
	f.StringArrayVar(&g.down, "down", nil, "of a URL: origin, or group/origin, that is not healthy; may be given again")
	f.StringArrayVar(&g.latency, "latency", nil, "of a URL: latency of an origin, ORIGIN=20ms; may be given again")
	f.StringVar(&g.session, "session", "", "of a URL: origin that the visitor's session is with")
	f.StringVar(&g.node, "node", "", "of a URL: ask this gateway alone")
	f.BoolVar(&g.offline, "offline", false, "of a URL: ask no gateway, and assume what they would have measured")
}

// ofURL and ofHost are the flags that go with the one and not with the other.
const (
	ofURL  = "file header method country down latency session node offline"
	ofHost = "resolver at type"
)

// given reports whether a flag was used that goes with a URL.
func (g *gatewayQuestion) given(cmd *cobra.Command) bool { return changed(cmd, ofURL) != "" }

func changed(cmd *cobra.Command, names string) string {
	for name := range strings.FieldsSeq(names) {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// fits refuses flags that have no effect.
func (g *gatewayQuestion) fits(cmd *cobra.Command, isURL bool) error {
	if !isURL {
		return fault.Usage("--"+changed(cmd, ofURL)+" goes with a URL, not with a host", "https://HOST/PATH")
	}
	if name := changed(cmd, ofHost); name != "" {
		return fault.Usage("--"+name+" goes with a host, not with a URL", "leave it out")
	}
	if name := changed(cmd, assumes); name != "" && g.node != "" {
		return fault.Usage("--"+name+" is worked out here, and --node asks a gateway", "leave one of them out")
	}
	return nil
}

// assumes are the flags that say what no gateway is asked for.
const assumes = "file down latency offline"

// askGateways asks those that run. asked: they could be; else it is to be worked out here.
func (a *app) askGateways(cmd *cobra.Command, g *gatewayQuestion, url, client string) (asked bool, err error) {
	if changed(cmd, assumes) != "" {
		return false, nil
	}
	c, err := a.client()
	if err != nil {
		return false, err
	}
	x, err := c.ExplainRequest(cmd.Context(), api.RequestQuestion{
		URL: url, Method: g.method, Headers: g.header, Client: client, Country: g.country, Session: g.session, Node: g.node,
	})
	// A control that is older than this program does not know the question.
	if code := api.CodeOf(err); g.node == "" && (code == api.CodeNoGateway || code == api.CodeNotFound) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	return true, a.show(x, func(w io.Writer, p text.Painter) { render.Requests(w, p, x) })
}

// explainURL says how a gateway would decide about a request.
func (a *app) explainURL(cmd *cobra.Command, g *gatewayQuestion, url, client string) error {
	q := explain.Question{
		URL: url, Method: g.method, Headers: g.header, Country: strings.ToUpper(g.country), Down: g.down, Session: g.session, Now: a.now(), Latency: map[string]time.Duration{},
	}
	if client != "" {
		addr, err := netip.ParseAddr(client)
		if err != nil {
			return fault.Usage(fmt.Sprintf("--client %q is no address", client), "an address such as 203.0.113.7")
		}
		q.Client = addr
	}
	for _, l := range g.latency {
		name, value, ok := strings.Cut(l, "=")
		d, err := time.ParseDuration(value)
		if !ok || err != nil || d < 0 {
			return fault.Usage(fmt.Sprintf("--latency %q is not ORIGIN=DURATION", l), "such as --latency tokyo=20ms")
		}
		q.Latency[name] = d
	}
	if err := q.Check(); err != nil {
		return badQuestion(err)
	}
	if asked, err := a.askGateways(cmd, g, url, client); asked || err != nil {
		return err
	}
	docs, err := a.gatewayDocs(cmd, g.files)
	if err != nil {
		return err
	}
	x, err := explain.Explain(snapshot.CompileEdge(0, a.now(), spec.NewSet(docs)), &q)
	if errors.Is(err, explain.ErrQuestion) {
		return badQuestion(err)
	}
	if err != nil {
		return err
	}
	if changed(cmd, assumes) == "" {
		x.Assumed = append([]string{"no gateway is connected that could be asked"}, x.Assumed...)
	}
	shown := control.RequestAnswer("", x)
	return a.show(shown, func(w io.Writer, p text.Painter) { render.Gateway(w, p, &shown) })
}

// badQuestion is a question that cannot be asked, whoever is asked.
func badQuestion(err error) error {
	return fault.Usage(strings.TrimPrefix(err.Error(), explain.ErrQuestion.Error()+": "), "")
}

// gatewayDocs are the resources that gateways serve by: of files, or of the server.
func (a *app) gatewayDocs(cmd *cobra.Command, files []string) ([]spec.Resource, error) {
	if len(files) > 0 {
		sources, err := input.Read(cmd.Context(), files, a.in)
		if err != nil {
			return nil, err
		}
		if err := checkAlone(sources); err != nil {
			return nil, err
		}
		var docs []spec.Resource
		for _, s := range sources {
			d, _ := spec.Parse(s.File, []byte(s.Content)) // checkAlone has told what is wrong
			docs = append(docs, d...)
		}
		return docs, nil
	}
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	var docs []spec.Resource
	for _, kind := range []spec.Kind{spec.KindService, spec.KindRuleSet, spec.KindCertificate} {
		list, err := collect(math.MaxInt, func(cursor string, n int) ([]api.Resource, string, error) {
			page, _, err := c.ListResources(cmd.Context(), string(kind), api.ListResourcesParams{Cursor: cursor, Limit: n})
			return page.Resources, page.Next, err
		})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			d, errs := spec.Parse("", r.Document)
			if err := errs.Err(); err != nil {
				return nil, fmt.Errorf("document of %s %s: %w", r.Kind, r.Name, err)
			}
			docs = append(docs, d...)
		}
	}
	return docs, nil
}
