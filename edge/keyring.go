package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"steerpoint/snapshot"
)

// rereadEvery is how often files of certificates are looked at: a renewed one is in use that soon.
const rereadEvery = 5 * time.Second

// keyring keeps the certificates of a snapshot, and puts those that can be used in use.
type keyring struct {
	certs *Certificates // nil: the gateway has no TLS

	mu      sync.Mutex
	holders map[string]*holder // by the certificate's name
	domains map[string]string  // certificate by domain
}

// holder is one certificate and where it comes from.
type holder struct {
	written snapshot.EdgeCertificate
	pair    snapshot.EdgeKeyPair // unless it is in files
	seen    [2]stamp
	cert    *tls.Certificate // nil: none could be read yet
	said    string           // what was logged last of it
}

// stamp is what shows that a file is another one.
type stamp struct {
	mod  time.Time
	size int64
}

var errNoPair = errors.New("no chain and key have come yet")

// set takes the certificates of a snapshot. What cannot be read keeps the certificate before, if there was one.
func (k *keyring) set(e *snapshot.Edge, secrets *snapshot.EdgeSecrets, log *slog.Logger) {
	pairs := map[string]snapshot.EdgeKeyPair{}
	if secrets != nil {
		for _, p := range secrets.Certificates {
			pairs[p.Name] = p
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.holders
	k.holders, k.domains = map[string]*holder{}, map[string]string{}
	for _, w := range e.Certificates {
		h := &holder{written: w, pair: pairs[w.Name]}
		if was := old[w.Name]; was != nil {
			h.cert, h.said = was.cert, was.said
		}
		h.load(log)
		k.holders[w.Name] = h
	}
	for i := range e.Services {
		for domain, name := range e.Services[i].Certificates {
			k.domains[domain] = name
		}
	}
	k.show()
}

// show puts what can be used in use. The lock is held.
func (k *keyring) show() {
	byDomain := map[string]*tls.Certificate{}
	for domain, name := range k.domains {
		if h := k.holders[name]; h != nil && h.cert != nil {
			byDomain[domain] = h.cert
		}
	}
	if k.certs != nil {
		k.certs.Set(byDomain)
	}
}

// follow reads files again when they have changed.
func (k *keyring) follow(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(rereadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		k.mu.Lock()
		for _, h := range k.holders {
			if h.written.ChainFile != "" && (h.cert == nil || h.stamps() != h.seen) {
				h.load(log)
			}
		}
		k.show()
		k.mu.Unlock()
	}
}

// load reads a certificate. The log is told once of what is wrong, and when it is over.
func (h *holder) load(log *slog.Logger) {
	cert, err := h.read()
	if err != nil {
		if said := err.Error(); said != h.said {
			log.Error("a certificate cannot be used; visitors get the one before, or none", "code", "CERTIFICATE_UNUSABLE", "certificate", h.written.Name, "error", err)
			h.said = said
		}
		return
	}
	if h.said != "" {
		log.Info("a certificate can be used again", "certificate", h.written.Name)
	}
	h.cert, h.said = cert, ""
}

func (h *holder) read() (*tls.Certificate, error) {
	var cert tls.Certificate
	var err error
	switch {
	case h.written.ChainFile != "":
		h.seen = h.stamps() // before they are read: what changes meanwhile is read again
		cert, err = tls.LoadX509KeyPair(h.written.ChainFile, h.written.KeyFile)
	case h.pair.Chain == "":
		return nil, errNoPair
	default:
		cert, err = tls.X509KeyPair([]byte(h.pair.Chain), []byte(h.pair.Key.Reveal()))
	}
	if err != nil {
		return nil, fmt.Errorf("chain and key: %w", err)
	}
	return &cert, nil
}

func (h *holder) stamps() (s [2]stamp) {
	for i, name := range []string{h.written.ChainFile, h.written.KeyFile} {
		if info, err := os.Stat(name); err == nil {
			s[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return s
}
