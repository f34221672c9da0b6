package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"steerpoint/control/api"
	"steerpoint/control/internal/web"
)

const jsonType = "application/json"

// plainPaths refuses paths that are not written plainly, and what is no path at all: the mux would answer them itself, with
// a redirection or a text.
func plainPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.Path; !strings.HasPrefix(p, "/") || path.Clean(p) != p && path.Clean(p)+"/" != p {
			web.WriteProblem(w, notFound("nothing is at %q: the path has parts such as //, . or .., or is none", p))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// enter looks at a request before the frame does: whether there is an answer of a type that the client takes, whether the
// body is of a type that the operation reads, and whether it arrives whole. The frame would answer anything, and call a
// body that broke off a mistake of ours.
func enter(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	op := ctx.Operation()
	if offers := offered(op); !web.Accepts(r.Header.Values("Accept"), offers...) {
		web.WriteProblem(w, problem(http.StatusNotAcceptable, api.CodeNotAcceptable, "Not acceptable",
			fmt.Sprintf("%s answers %s, and Accept allows no such type", op.OperationID, strings.Join(offers, ", "))))
		return
	}
	in := entered{frameContext: ctx, header: r.Header, rc: http.NewResponseController(w)}
	if op.RequestBody != nil {
		var p *api.Problem
		if in.body, p = readBody(ctx, r, op); p != nil {
			web.WriteProblem(w, p)
			return
		}
	}
	// A read deadline that strikes while the work goes on would cancel the request, as if the client had gone.
	if err := in.rc.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		web.WriteProblem(w, asProblem(fmt.Errorf("read deadline: %w", err)))
		return
	}
	next(&in)
}

// offered are the media types of an operation's answers.
func offered(op *huma.Operation) []string {
	var out []string
	for status, res := range op.Responses {
		if strings.HasPrefix(status, "2") {
			out = slices.AppendSeq(out, maps.Keys(res.Content))
		}
	}
	slices.Sort(out)
	return out
}

// readBody reads the body of a request within the limits of its operation. Without a Content-Type it is taken for JSON.
func readBody(ctx huma.Context, r *http.Request, op *huma.Operation) ([]byte, *api.Problem) {
	if header := r.Header.Get("Content-Type"); header != "" {
		if t := web.MediaType(header); op.RequestBody.Content[t] == nil {
			types := slices.Sorted(maps.Keys(op.RequestBody.Content))
			return nil, problem(http.StatusUnsupportedMediaType, api.CodeMediaType, "Unsupported media type",
				fmt.Sprintf("the body is %q, and %s takes %s: say so in Content-Type", header, op.OperationID, strings.Join(types, ", ")))
		}
	}
	if op.BodyReadTimeout > 0 {
		if err := ctx.SetReadDeadline(time.Now().Add(op.BodyReadTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return nil, asProblem(fmt.Errorf("read deadline: %w", err))
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, op.MaxBodyBytes+1))
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil, problem(http.StatusRequestTimeout, api.CodeBadRequest, "Request timeout", fmt.Sprintf("the body did not arrive within %v", op.BodyReadTimeout))
	case err != nil:
		return nil, problem(http.StatusBadRequest, api.CodeBadRequest, "Bad request", "the body broke off, or is not sent as HTTP says: "+err.Error())
	case int64(len(body)) >= op.MaxBodyBytes: // the frame's limit is one byte below
		return nil, problem(http.StatusRequestEntityTooLarge, api.CodeTooLarge, "Too large", fmt.Sprintf("the body is longer than the %d bytes that %s takes", op.MaxBodyBytes-1, op.OperationID))
	}
	return body, nil
}

// frameContext is huma.Context under a name that leaves its method Context in reach.
type frameContext = huma.Context

// entered is a request as the frame sees it after enter: negotiated, its body read, its conditional headers each one list.
type entered struct {
	frameContext
	header http.Header
	body   []byte
	rc     *http.ResponseController
}

// Unwrap lets the adapter reach the connection.
func (r *entered) Unwrap() huma.Context { return r.frameContext }

// Header implements huma.Context.
func (r *entered) Header(name string) string {
	switch name {
	case "Accept", "Content-Type":
		return jsonType
	case "If-Match", "If-None-Match":
		return strings.Join(r.header.Values(name), ", ")
	}
	return r.frameContext.Header(name)
}

// SetReadDeadline implements huma.Context; the body is here.
func (r *entered) SetReadDeadline(time.Time) error { return nil }

// SetStatus implements huma.Context. The answer begins here: what the work took is not taken from its time to be written.
func (r *entered) SetStatus(code int) {
	_ = r.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // a connection that is gone says so when it is written to
	r.frameContext.SetStatus(code)
}

// BodyReader implements huma.Context.
func (r *entered) BodyReader() io.Reader { return bytes.NewReader(r.body) }
