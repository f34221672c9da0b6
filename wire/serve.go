package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"steerpoint/internal/pki"
	"steerpoint/report"
)

// request is one call that is let in.
type request struct {
	call    *Call
	node    pki.Identity // empty for a call by token
	remote  string       // address the connection comes from
	ctx     context.Context
	http    *http.Request
	writer  http.ResponseWriter
	control *http.ResponseController
	started bool // the answer began: nothing but frames can be said any more
}

// ServeHTTP answers one call. Nothing of a call is read before its caller is known.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := h.routes[r.Method+" "+r.URL.Path]
	if call == nil {
		unknown := &request{call: &Call{Name: "unknown"}, http: r, writer: w, remote: hostOf(r.RemoteAddr)}
		h.refuse(unknown, pki.Refuse(pki.CallUnknown, "there is no such call", "is this node newer than control? Upgrade control first"))
		return
	}
	ctx := r.Context()
	if !call.Stream {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.cfg.CallTimeout)
		defer cancel()
	}
	req := &request{
		call: call, ctx: ctx, http: r, writer: w, control: http.NewResponseController(w), remote: hostOf(r.RemoteAddr),
	}
	defer h.recovered(req)
	result, err := h.answer(req)
	if req.started {
		return // what there was to say was said in frames
	}
	if err != nil {
		h.refuse(req, h.refusalOf(req, err))
		return
	}
	h.metrics.calls.WithLabelValues(call.Name).Inc()
	h.respond(w, result)
}

// recovered keeps a fault in one call from ending the process that serves a thousand others.
func (h *Hub) recovered(r *request) {
	if p := recover(); p != nil {
		h.log.Error("a call failed inside of control", "call", r.call.Name, "node", r.node.Name, "panic", p, "stack", string(debug.Stack()))
		if !r.started {
			h.refuse(r, pki.Refuse(pki.Busy, "the call failed inside of control", "its log says more"))
		}
	}
}

func (h *Hub) answer(r *request) (any, error) {
	if err := checkProtocol(r.http.Header.Get(headerProtocol)); err != nil {
		return nil, err
	}
	if err := h.admit(r); err != nil {
		return nil, err
	}
	if !r.call.Stream {
		if err := r.control.SetReadDeadline(time.Now().Add(h.cfg.CallTimeout)); err != nil {
			return nil, err
		}
	}
	return r.call.serve(h, r)
}

// admit checks the caller against the service definition, and with the registry.
func (h *Hub) admit(r *request) error {
	if r.call.Auth == Token {
		return nil
	}
	v, _ := r.http.Context().Value(visitorKey{}).(*visitor)
	node, err := h.caller(r, v)
	if err != nil {
		return err
	}
	r.node = node
	if err := h.registry.Admit(node); err != nil {
		return err
	}
	if err := checkRole(r.call, node); err != nil {
		return err
	}
	if v != nil {
		v.prove()
	}
	return nil
}

// caller is whose certificate the connection showed. Its signatures are checked once a connection, its end at each call.
func (h *Hub) caller(r *request, v *visitor) (pki.Identity, error) {
	maybeExpired := r.call.Auth == CertificateMaybeExpired
	if v != nil {
		if id := v.node.Load(); id != nil {
			return *id, id.JudgeEnd(h.cfg.Now(), maybeExpired)
		}
	}
	id, err := pki.JudgeNode(h.cfg.Pool, r.http.TLS.PeerCertificates, h.cfg.Now(), maybeExpired)
	if err == nil && v != nil {
		v.node.Store(&id)
	}
	return id, err
}

func checkRole(call *Call, node pki.Identity) error {
	if len(call.Roles) == 0 {
		return nil
	}
	for _, role := range call.Roles {
		if node.Has(role) {
			return nil
		}
	}
	return pki.Refuse(pki.RoleRefused,
		fmt.Sprintf("the call %s is for nodes with role %v; node %s has %v", call.Name, call.Roles, node.Name, node.Roles),
		"give the machine the role by a token with it, and join again")
}

// checkProtocol lets in who says nothing, and every number from 1 to ours: numbers grow by what an older reader would
// misunderstand, and we speak all that we ever did.
func checkProtocol(text string) error {
	if text == "" {
		return nil
	}
	if n, err := strconv.Atoi(text); err != nil || n < 1 || n > Protocol {
		return pki.Refuse(pki.BadRequest, fmt.Sprintf("the node speaks protocol %.20q, control speaks 1 to %d", text, Protocol),
			"upgrade control before its nodes")
	}
	return nil
}

// body reads a call's body as JSON. Fields it does not know are of a newer node and are skipped.
func body[T any](h *Hub, r *request) (T, error) {
	var value T
	var in io.Reader = http.MaxBytesReader(r.writer, r.http.Body, r.call.MaxBody)
	raw, err := io.ReadAll(in)
	if err == nil && r.http.Header.Get("Content-Encoding") == "gzip" {
		raw, err = unpack(bytes.NewReader(raw), r.call.MaxBody)
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge) || errors.Is(err, errFrameTooLarge):
		return value, pki.Refuse(pki.BodyTooLarge, fmt.Sprintf("the body of %s is over %d bytes", r.call.Name, r.call.MaxBody), "send less at once")
	case err != nil:
		return value, pki.Refuse(pki.BadRequest, "the body did not come whole: "+err.Error(), "")
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return value, pki.Refuse(pki.BadRequest, "the body is not what the call takes: "+err.Error(), "")
	}
	return value, nil
}

func (h *Hub) join(r *request) (any, error) {
	address, _ := netip.ParseAddr(r.remote) // an address that is none has a bucket of its own
	if !h.joins.allow(address, h.cfg.Now()) {
		r.writer.Header().Set("Retry-After", "10")
		return nil, pki.Refuse(pki.Busy, fmt.Sprintf("more than %d joins a minute from %s", h.cfg.JoinsPerMinute, r.remote), "wait a little")
	}
	a, err := body[pki.Application](h, r)
	if err != nil {
		return nil, err
	}
	a.Address = r.remote
	return h.registry.Join(r.ctx, a)
}

func (h *Hub) renew(r *request) (any, error) {
	b, err := body[renewal](h, r)
	if err != nil {
		return nil, err
	}
	return h.registry.Renew(r.ctx, r.node, b.Request)
}

func (h *Hub) ack(r *request) (any, error) {
	a, err := body[report.Ack](h, r)
	if err != nil {
		return nil, err
	}
	role, ok := map[string]string{report.SnapshotDNS: RoleDNS, report.SnapshotProbe: RoleProbe, report.SnapshotEdge: RoleEdge}[a.Snapshot]
	if !ok {
		return nil, pki.Refuse(pki.BadRequest, fmt.Sprintf("there is no snapshot %.40q", a.Snapshot), "")
	}
	if !r.node.Has(role) {
		return nil, pki.Refuse(pki.RoleRefused, fmt.Sprintf("node %s has no role %s and follows no such snapshot", r.node.Name, role), "")
	}
	h.sink.Acked(r.node.Name, a)
	return nil, nil
}

func (h *Hub) observations(r *request) (any, error) {
	b, err := body[batch](h, r)
	if err != nil {
		return nil, err
	}
	if len(b.Observations) > maxBatch {
		return nil, pki.Refuse(pki.BadRequest, fmt.Sprintf("%d observations in one call, at most %d are taken", len(b.Observations), maxBatch), "send less at once")
	}
	if h.batches.seen(r.node.Name, b.ID) {
		h.metrics.repeated.Inc()
		return nil, nil
	}
	for i := range b.Observations {
		ownWord(&b.Observations[i], r.node.Name)
	}
	h.metrics.observations.Add(float64(len(b.Observations)))
	h.sink.Observe(r.node.Name, b.Observations)
	return nil, nil
}

// ownWord makes an observation one of the node that sent it, whatever it says: a point has one vote, its own.
func ownWord(o *report.Observation, node string) {
	o.Point = node
	o.Age = max(0, o.Age)
	if len(o.Detail) > maxDetail {
		o.Detail = strings.ToValidUTF8(o.Detail[:maxDetail], "") // the cut may go through a character
	}
}

func (h *Hub) result(r *request) (any, error) {
	a, err := body[answer](h, r)
	if err != nil {
		return nil, err
	}
	if a.Observation == nil && a.Answer == nil && a.Failure == "" {
		return nil, pki.Refuse(pki.BadRequest, "a result is an observation, an answer, or the reason why there is none", "")
	}
	if a.Observation != nil {
		ownWord(a.Observation, r.node.Name)
	}
	h.asks.answered(r.node.Name, a)
	return nil, nil
}

func (h *Hub) status(r *request) (any, error) {
	s, err := body[report.NodeStatus](h, r)
	if err != nil {
		return nil, err
	}
	h.sink.Reported(r.node.Name, s)
	return nil, nil
}

func (h *Hub) update(r *request) (any, error) {
	u, err := body[report.Update](h, r)
	if err != nil {
		return nil, err
	}
	if h.cfg.Update == nil {
		return nil, pki.Refuse(pki.CallUnknown, "this control does no DNS updates", "")
	}
	return h.cfg.Update(r.ctx, r.node.Name, u)
}

// refusalOf is what the caller is told of an error.
func (h *Hub) refusalOf(r *request, err error) *pki.Refusal {
	if refusal, ok := errors.AsType[*pki.Refusal](err); ok {
		return refusal
	}
	h.log.Error("a call of a node failed", "call", r.call.Name, "node", r.node.Name, "err", err)
	return pki.Refuse(pki.Busy, "control could not do it now", "it is tried again; control's log says more")
}

func (h *Hub) refuse(r *request, refusal *pki.Refusal) {
	h.metrics.refused.WithLabelValues(r.call.Name, refusal.Code).Inc()
	level := slog.LevelInfo
	if r.node.Name == "" && !h.told.allow(siteAddr(r.remote), time.Now()) {
		level = slog.LevelDebug // anybody can make them, thousands a second: the metric counts them all
	}
	h.log.Log(r.http.Context(), level, "a call is refused", "call", r.call.Name, "node", r.node.Name, "remote", r.remote, "code", refusal.Code, "what", refusal.What)
	r.writer.Header().Set("Content-Type", typeJSON)
	r.writer.WriteHeader(httpStatus(refusal.Status))
	// Whoever is refused and does not listen is not told.
	_ = json.NewEncoder(r.writer).Encode(refusal)
}

// httpStatus keeps a refusal without a proper status from ending the connection.
func httpStatus(status int) int {
	if status < http.StatusBadRequest || status > 599 {
		return http.StatusInternalServerError
	}
	return status
}

func (h *Hub) respond(w http.ResponseWriter, result any) {
	if result == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", typeJSON)
	if err := json.NewEncoder(w).Encode(result); err != nil {
		h.log.Debug("an answer did not reach its node", "err", err)
	}
}

// siteAddr is the address of a remote host; those that are none share one.
func siteAddr(remote string) netip.Addr {
	a, _ := netip.ParseAddr(remote)
	return a
}

func hostOf(remote string) string {
	if a, err := netip.ParseAddrPort(remote); err == nil {
		return a.Addr().Unmap().String()
	}
	return remote
}

// batches remembers the last batches of every node, so that one whose answer was lost counts once.
type batches struct {
	mu    sync.Mutex
	nodes map[string][]string // IDs, oldest first
}

// rememberedBatches: a node has one batch under way; more is for calls that overtake each other.
const rememberedBatches = 8

func (b *batches) seen(node, id string) bool {
	if id == "" {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes == nil {
		b.nodes = map[string][]string{}
	}
	ids := b.nodes[node]
	for _, known := range ids {
		if known == id {
			return true
		}
	}
	if len(ids) >= rememberedBatches {
		ids = ids[1:]
	}
	b.nodes[node] = append(ids[:len(ids):len(ids)], id)
	return false
}

func (b *batches) forget(node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.nodes, node)
}
