package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"steerpoint/internal/certfile"
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
	served  map[string]*tls.Certificate
}

// holder is one certificate and where it comes from.
type holder struct {
	name  string
	files *certfile.Source     // nil: it is in pair
	pair  snapshot.EdgeKeyPair // unless it is in files
	cert  *tls.Certificate     // nil: none could be read yet
	said  string               // what was logged last of it
	kept  bool                 // pair is that of before, which cert was made of
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
	for i := range e.Certificates {
		h := holderOf(&e.Certificates[i], pairs[e.Certificates[i].Name], old[e.Certificates[i].Name])
		h.load(log)
		k.holders[h.name] = h
	}
	for i := range e.Services {
		for domain, name := range e.Services[i].Certificates {
			k.domains[domain] = name
		}
	}
	k.show()
}

// holderOf is the holder of a certificate after was, which is nil for a new one. What is in the same files as before, or is the
// same pair, is not read again.
func holderOf(w *snapshot.EdgeCertificate, pair snapshot.EdgeKeyPair, was *holder) *holder {
	h := &holder{name: w.Name, pair: pair}
	if w.ChainFile != "" {
		h.files = certfile.Follow(w.ChainFile, w.KeyFile)
	}
	if was == nil {
		return h
	}
	h.cert, h.said = was.cert, was.said
	if h.files == nil || was.files == nil {
		h.kept = h.files == nil && was.files == nil && was.cert != nil && was.said == "" &&
			was.pair.Chain == pair.Chain && was.pair.Key.Equal(pair.Key.Text)
		return h
	}
	chain, key := h.files.Files()
	if c, k := was.files.Files(); c == chain && k == key {
		h.files = was.files
	}
	return h
}

// show puts what can be used in use. A domain that is to have another certificate, which is still ordered or cannot be read, keeps
// the one that it has. The lock is held.
func (k *keyring) show() {
	byDomain := map[string]*tls.Certificate{}
	for domain, name := range k.domains {
		if h := k.holders[name]; h != nil && h.cert != nil {
			byDomain[domain] = h.cert
		} else if before := k.served[domain]; before != nil {
			byDomain[domain] = before
		}
	}
	k.served = byDomain
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
		k.reread(log)
	}
}

func (k *keyring) reread(log *slog.Logger) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.holders {
		if h.files != nil {
			h.load(log)
		}
	}
	k.show()
}

// ends are when the certificates in use end, by name.
func (k *keyring) ends() map[string]time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]time.Time{}
	for name, h := range k.holders {
		if h.cert != nil && h.cert.Leaf != nil {
			out[name] = h.cert.Leaf.NotAfter
		}
	}
	return out
}

// load reads a certificate. The log is told once of what is wrong, and when it is over.
func (h *holder) load(log *slog.Logger) {
	cert, err := h.read()
	if errors.Is(err, errNoPair) && h.cert == nil { // control is still ordering it, or says what is wrong
		if h.said == "" {
			log.Info("a certificate is waited for: its domains keep the one before, or have none", "certificate", h.name)
		}
		h.said = err.Error()
		return
	}
	if err != nil {
		if said := err.Error(); said != h.said {
			log.Error("a certificate cannot be used; visitors get the one before, or none", "code", "CERTIFICATE_UNUSABLE", "certificate", h.name, "error", err)
			h.said = said
		}
		return
	}
	if cert == nil || cert == h.cert {
		return // as it was, and what was wrong with it still is
	}
	if h.said != "" {
		log.Info("a certificate can be used again", "certificate", h.name)
	}
	h.cert, h.said = cert, ""
}

// read gives the certificate; nil without an error: it is as it was the last time, whatever came of that.
func (h *holder) read() (*tls.Certificate, error) {
	switch {
	case h.files != nil:
		changed, err := h.files.Reload()
		if err != nil || !changed && h.files.Current() == nil {
			return nil, err
		}
		return h.files.Current(), nil
	case h.kept:
		return nil, nil
	case h.pair.Chain == "":
		return nil, errNoPair
	}
	cert, err := tls.X509KeyPair([]byte(h.pair.Chain), []byte(h.pair.Key.Reveal()))
	if err != nil {
		return nil, fmt.Errorf("chain and key: %w", err)
	}
	return &cert, nil
}
