// Package doh is DNS over HTTPS (RFC 8484): it takes a query from a request, has it answered, and says how long the
// reply keeps. It knows HTTP and, of DNS, only where TTLs stand.
package doh

import (
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
)

const (
	// Path is where queries go.
	Path = "/dns-query"
	// mediaType of queries and replies.
	mediaType = "application/dns-message"
	// maxQuery is the largest query taken. Every query with padding and options we know is far below; a GET of it fits
	// MaxHeader.
	maxQuery = 4096
	// MaxHeader bounds the head of a request in octets; it is for http.Server.
	MaxHeader = 8 << 10
)

// Answer appends the reply to a query to dst; nothing: there is none. private says that others may get another answer to
// the same query.
type Answer func(dst, query []byte, client netip.Addr) (reply []byte, private bool)

// New makes the handler of requests.
func New(answer Answer) http.Handler {
	h := &handler{answer: answer}
	h.buffers.New = func() any { return new(buffers) }
	mux := http.NewServeMux()
	mux.Handle(Path, h)
	return mux
}

type handler struct {
	answer  Answer
	buffers sync.Pool
}

// buffers of one request.
type buffers struct{ query, reply []byte }

// maxKept is the largest reply whose buffer is used again.
const maxKept = 16 << 10

// refusal is why a request is not taken.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := h.buffers.Get().(*buffers)
	defer func() {
		if cap(b.reply) <= maxKept {
			h.buffers.Put(b)
		}
	}()
	if err := b.read(w, r); err != nil {
		status := http.StatusBadRequest
		if known, ok := errors.AsType[*refusal](err); ok {
			status = known.status
		}
		http.Error(w, err.Error(), status)
		return
	}
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // never of a TCP connection
		http.Error(w, "who asks is not known", http.StatusInternalServerError)
		return
	}
	private := false
	b.reply, private = h.answer(b.reply[:0], b.query, client.Addr().Unmap())
	if len(b.reply) == 0 {
		http.Error(w, "there is no reply to this over HTTPS", http.StatusBadRequest)
		return
	}
	head := w.Header()
	head.Set("Content-Type", mediaType)
	head.Set("Content-Length", strconv.Itoa(len(b.reply)))
	head.Set("Cache-Control", cacheControl(b.reply, private))
	_, _ = w.Write(b.reply) // who went away needs no reply
}

// read takes the query out of a request.
func (b *buffers) read(w http.ResponseWriter, r *http.Request) error {
	b.query = b.query[:0]
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		text := r.URL.Query().Get("dns")
		if text == "" {
			return &refusal{http.StatusBadRequest, "there is no query: write " + Path + "?dns=QUERY"}
		}
		if len(text) > base64.RawURLEncoding.EncodedLen(maxQuery) {
			return &refusal{http.StatusRequestURITooLong, "the query is too long"}
		}
		var err error
		if b.query, err = base64.RawURLEncoding.AppendDecode(b.query, []byte(text)); err != nil {
			return &refusal{http.StatusBadRequest, "dns= is not base64url without padding"}
		}
		return nil
	case http.MethodPost:
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != mediaType {
			return &refusal{http.StatusUnsupportedMediaType, "queries are " + mediaType}
		}
		return b.body(http.MaxBytesReader(w, r.Body, maxQuery))
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		return &refusal{http.StatusMethodNotAllowed, "queries come by GET or POST"}
	}
}

// body reads the query of a POST.
func (b *buffers) body(r io.Reader) error {
	for {
		if len(b.query) == cap(b.query) {
			b.query = append(b.query, 0)[:len(b.query)]
		}
		n, err := r.Read(b.query[len(b.query):cap(b.query)])
		b.query = b.query[:len(b.query)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
			return &refusal{http.StatusRequestEntityTooLarge, "the query is too long"}
		}
		if err != nil {
			return &refusal{http.StatusBadRequest, "the query breaks off"}
		}
	}
}

// cacheControl says how long HTTP may keep a reply: no longer than DNS may (RFC 8484 section 5.1).
func cacheControl(reply []byte, private bool) string {
	seconds, ok := freshness(reply)
	if !ok {
		return "no-store"
	}
	age := "max-age=" + strconv.FormatUint(uint64(seconds), 10)
	if private { // a cache of many clients knows the URL, and not who asks
		return "private, " + age
	}
	return age
}
