package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"steerpoint/control/api"
	"steerpoint/control/internal/web"
)

// Limits of the API's listener. Header and body time-outs end clients that send a byte a minute; an answer may take
// long to read, a watch takes for ever and sets its own deadlines.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
	maxApplyBytes     = 16 << 20
	maxResourceBytes  = 1 << 20
	maxConnections    = 4096
)

// serve answers the API until ctx ends.
func (c *Control) serve(ctx context.Context) error {
	srv := &http.Server{
		Handler: c.handler(ctx), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, DisableGeneralOptionsHandler: true,
	}
	serve := srv.Serve
	if c.Secure() {
		srv.TLSConfig = (&apiCertificate{authority: c.authority, names: c.hostNames()}).config()
		serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
	}
	failed := make(chan error, 1)
	go func() { failed <- serve(web.LimitListener(c.ln, maxConnections)) }()
	select {
	case err := <-failed:
		return fmt.Errorf("API on %s: %w", c.ln.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := srv.Shutdown(stop); err != nil {
		_ = srv.Close() // clients that did not end in time are cut off
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("API: %w", err)
	}
	return nil
}

// handler is everything the listener answers. Watches end with ctx.
func (c *Control) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	c.routes(ctx, c.newAPI(mux))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", c.readyz)
	if c.deps.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(c.deps.Gatherer, promhttp.HandlerOpts{}))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			c.page(w, r)
			return
		}
		methods := web.Methods(mux, r)
		if r.URL.Path == "/" {
			methods = []string{http.MethodGet, http.MethodHead}
		}
		if len(methods) == 0 {
			web.WriteProblem(w, notFound("nothing is at %s; the API is at %s, described by %s/openapi.json", r.URL.Path, api.Prefix, api.Prefix))
			return
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		web.WriteProblem(w, problem(http.StatusMethodNotAllowed, api.CodeMethodNotAllowed, "Method not allowed",
			r.URL.Path+" takes "+strings.Join(methods, ", ")))
	})
	g := &web.Guard{
		Token: c.token, Admit: c.knows, Hosts: c.hostNames(), Log: c.log, Limit: web.NewLimiter(c.cfg.Rate),
		Open:  []string{"/healthz", "/readyz", api.Prefix + "/openapi.json", api.Prefix + "/openapi.yaml"},
		Local: []string{"/", "/metrics"},
		Done: func(method string, status int) {
			if !slices.Contains([]string{"GET", "HEAD", "PUT", "POST", "DELETE"}, method) {
				method = "other"
			}
			c.metrics.requests.WithLabelValues(method, fmt.Sprint(status)).Inc()
		},
	}
	return g.Wrap(plainPaths(mux))
}

func (c *Control) readyz(w http.ResponseWriter, _ *http.Request) {
	if !c.ready.Load() {
		web.WriteProblem(w, problem(http.StatusServiceUnavailable, api.CodeNotReady, "Not ready", "no map is published yet"))
		return
	}
	if err := c.store.Err(); err != nil {
		web.WriteProblem(w, problem(http.StatusServiceUnavailable, api.CodeStoreUnavailable, "Not ready", c.storeTrouble(err)))
		return
	}
	fmt.Fprintln(w, "ready")
}

// newAPI makes the frame of the API: JSON only, problems with codes, OpenAPI 3.1.
func (c *Control) newAPI(mux *http.ServeMux) huma.API {
	cfg := huma.DefaultConfig("Steerpoint", documentVersion)
	cfg.CreateHooks = nil
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = api.Prefix+"/openapi", "", ""
	cfg.RejectUnknownQueryParameters = true
	cfg.Info.Description = "State and operation of traffic steering. Errors are problem documents (RFC 9457) with a stable code."
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "the token in <data>/admin.token, or one that `steer token create --api` made; x-steer-role of an operation is the role it needs"}}
	cfg.Security = []map[string][]string{{"token": {}}}
	cfg.Transformers = []huma.Transformer{func(_ huma.Context, _ string, v any) (any, error) {
		if m, ok := v.(*huma.ErrorModel); ok {
			return fromHuma(m), nil
		}
		return v, nil
	}, narrow}
	a := humago.New(mux, cfg)
	a.UseMiddleware(c.authorize, enter)
	return a
}

// repeatable reports whether the value of a mistake may be repeated: not one that holds resources, which may be Secrets.
func repeatable(e *huma.ErrorDetail) bool {
	switch e.Value.(type) {
	case string, bool, float64, int64:
		return e.Location != "body" && !strings.HasPrefix(e.Location, "body.sources") && !strings.HasPrefix(e.Location, "body.resources")
	}
	return false
}

// OpenAPI is the description of the API as a server gives it, indented; it needs no server.
func OpenAPI() ([]byte, error) {
	c := &Control{}
	a := c.newAPI(http.NewServeMux())
	c.routes(context.Background(), a)
	b, err := json.MarshalIndent(a.OpenAPI(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("description of the API: %w", err)
	}
	return append(b, '\n'), nil
}

// fromHuma turns what the frame refuses (a body that is no JSON, a field of the wrong type) into a problem of ours.
func fromHuma(m *huma.ErrorModel) *api.Problem {
	code := map[int]string{
		http.StatusNotFound: api.CodeNotFound, http.StatusRequestEntityTooLarge: api.CodeTooLarge,
		http.StatusInternalServerError: api.CodeInternal, http.StatusRequestTimeout: api.CodeBadRequest,
	}[m.Status]
	if code == "" {
		code = api.CodeBadRequest
	}
	p := problem(m.Status, code, m.Title, m.Detail)
	if n := len(m.Errors); n > 0 {
		p.Detail = fmt.Sprintf("%d mistake(s) in the request; nothing was changed", n)
	}
	for _, e := range m.Errors {
		it := api.ProblemItem{Message: e.Message, Location: e.Location}
		if e.Value != nil && repeatable(e) {
			if it.Value = fmt.Sprint(e.Value); len(it.Value) > 100 {
				it.Value = it.Value[:100] + "..."
			}
		}
		p.Errors = append(p.Errors, it)
	}
	return p
}
