package authdns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/snapshot"
)

// sharing is the secrets that the name servers of a cluster share: keys of transfers, and those of DNS cookies. They come
// sealed with a map and are opened when a map brings others; the map that is kept on disk holds them as they came. The server
// goes on by those it has, however long others cannot be opened.
type sharing struct {
	// taken is the envelope of the newest map and why it does not open; guarded by Server.mu.
	taken *snapshot.Sealed
	err   error
	// trouble is the text of err, for those who must not wait for a swap.
	trouble atomic.Pointer[string]
}

// register adds the metric of secrets.
func (g *sharing) register(reg prometheus.Registerer) error {
	return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "steer_authdns_shared_secrets_missing",
		Help: "1: the keys of transfers and cookies that came with the map cannot be opened, and those from before are used, if there are any.",
	}, func() float64 {
		if g.trouble.Load() != nil {
			return 1
		}
		return 0
	}))
}

// takeSecrets puts the secrets of a map in use. The caller holds the lock.
func (s *Server) takeSecrets(next *snapshot.Sealed) {
	g := &s.sharing
	if s.transfers == nil || next.Equal(g.taken) && g.err == nil { // a book serves nobody
		return
	}
	secrets, err := s.openSecrets(next)
	was := g.err
	if g.taken, g.err = next, err; err == nil {
		s.useCookies(secrets.Cookies)
		s.transfers.takeKeys(secrets.Keys)
		if g.trouble.Store(nil); was != nil {
			signal(s.pressing)
			s.log.Info("the secrets that name servers share are here again")
		}
		return
	}
	g.err = fmt.Errorf("SHARED_SECRETS_MISSING: the keys of transfers and cookies in this map cannot be opened: %w", err)
	text := g.err.Error()
	g.trouble.Store(&text)
	if was == nil || was.Error() != text {
		s.log.Error("transfers and cookies go on by the keys from before, until a restart; without any, messages signed by a key are refused", "error", g.err)
	}
}

// openSecrets gives the secrets of a map; without an envelope there are none.
func (s *Server) openSecrets(next *snapshot.Sealed) (*snapshot.ServerSecrets, error) {
	if next == nil {
		return &snapshot.ServerSecrets{}, nil
	}
	if s.cfg.OpenKeys == nil {
		return nil, errors.New("this name server has no key to open them with")
	}
	text, err := s.cfg.OpenKeys(snapshot.SecretsUse, next.Envelope)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	return snapshot.UnmarshalSecrets(text)
}

// openKeysName is the file beside the map in which versions before kept the keys of transfers so that they could be read.
const openKeysName = "dns.keys"

// removeOpenKeys removes that file, once a map with sealed keys is on disk.
func (s *Server) removeOpenKeys() {
	file := filepath.Join(filepath.Dir(s.cfg.StateFile), openKeysName)
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("a file with keys of transfers that can be read is left: remove it", "file", file, "error", err)
	}
}
