// Package authdns is the steering name server. It answers authoritatively, over UDP and TCP, for the zones, services
// and static records of one snapshot.DNS, by the scope of who asks. It asks nobody at query time: what it was last
// given it serves for ever, across restarts by a copy on disk.
//
// Invariants: a query sees one map, whole; a map that does not validate changes nothing; before the first map every
// question gets SERVFAIL with the extended error "not ready"; a query of one client never waits for another client.
package authdns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"steerpoint/authdns/internal/answer"
	"steerpoint/authdns/internal/cookie"
	"steerpoint/authdns/internal/server"
	"steerpoint/internal/certfile"
	"steerpoint/snapshot"
)

var (
	// ErrOlder is matched by the error of Swap for a map older than the one control gave before. Its text begins with
	// MAP_OLDER.
	ErrOlder = errors.New("older map")
	// ErrPortTaken is matched by the error of New when a listen address is in use. Its text begins with PORT_TAKEN.
	ErrPortTaken = errors.New("port taken")
)

// Server is one name server. Make it with New; it answers while Run runs.
type Server struct {
	cfg       Config
	log       *slog.Logger
	responder *answer.Responder
	cookies   *cookie.Keys
	sockets   *server.Server
	certs     *certfile.Source // of DoT and DoH; nil: there is none
	metrics   *metrics
	transfers *transfers
	updates   *updates
	signing   signing
	sharing   sharing
	// epoch is the zero of the clock answers use: monotonic, so that TTLs do not follow a wall clock that is set.
	epoch time.Time
	// heard is when control last was, on that clock in nanoseconds.
	heard atomic.Int64

	mu       sync.Mutex // guards what follows; never held while answering
	current  *snapshot.DNS
	fromDisk bool
	unsaved  bool

	wake chan struct{} // 1 deep: current is to be written to disk
	// pressing, 1 deep: it is to be written at once, since what is on disk would not do after a restart.
	pressing chan struct{}
	kept     atomic.Bool // current is on disk
}

// New binds the sockets and loads the map last kept on disk, so that Run answers from the first packet on. A damaged
// file is set aside, logged with its new name, and the server starts without a map. Call Run or Close.
func New(cfg Config, reg prometheus.Registerer, log *slog.Logger) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	answers, err := cfg.answers()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: log, epoch: time.Now(), wake: make(chan struct{}, 1), pressing: make(chan struct{}, 1),
		cookies: answers.Cookies,
	}
	s.signing.init(&answers)
	s.responder = answer.NewResponder(answers)
	if s.metrics, err = newMetrics(reg, s.mapInfo, &s.kept); err != nil {
		return nil, fmt.Errorf("name server metrics: %w", err)
	}
	s.transfers = newTransfers(newNotifier(cfg.Listen, s.metrics.notifies, log), log)
	s.updates = newUpdates(cfg.Updates, cfg.updateWait, s.metrics.updates, log)
	if err := errors.Join(s.signing.register(reg, s.clock), s.sharing.register(reg)); err != nil {
		return nil, fmt.Errorf("name server metrics: %w", err)
	}
	s.loadState()
	sockets := cfg.sockets()
	if err := s.openEncrypted(&sockets, reg); err != nil {
		return nil, err
	}
	s.sockets, err = server.Listen(context.Background(), sockets, s.handler, s.metrics.counters(), log)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("PORT_TAKEN: the name server cannot listen: %w: another program has the port: stop it, "+
			"or choose another with --listen %s=ADDR:PORT: %w", err, FailedRole(err), ErrPortTaken)
	}
	if err != nil {
		return nil, fmt.Errorf("name server: listen: %w", err)
	}
	return s, nil
}

// Addrs are the addresses really bound, in the order of Config.Listen, the same port for UDP and TCP.
func (s *Server) Addrs() []netip.AddrPort { return s.sockets.Bound() }

// Close gives the sockets back when Run will not be called.
func (s *Server) Close() error { return s.sockets.Close() }

// Run answers until ctx ends. When it returns, everything it started has stopped and the newest map is on disk.
func (s *Server) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, s.updates.cancel)()
	g.Go(func() error { return s.sockets.Serve(ctx) })
	g.Go(func() error { s.keepState(ctx); return nil })
	g.Go(func() error { s.watchSilence(ctx); return nil })
	g.Go(func() error { s.watchCertificate(ctx); return nil })
	g.Go(func() error { s.transfers.run(ctx); return nil })
	g.Go(func() error { s.keepSigned(ctx); return nil })
	return g.Wait()
}

// Swap validates a map and makes it the one that answers, at once for all sockets. On an error the one before stays,
// and the error says everything that is wrong. The map must not be changed afterwards.
//
// A map with a version below the last one swapped in is refused: it comes from a writer that was overtaken. A map from
// disk does not count, so that control may begin anew.
func (s *Server) Swap(d *snapshot.DNS) error { return s.take(d, false) }

// Adopt is Swap for a map that is the newest one whatever its version, such as that of a file with one writer: a lower
// version there is a control that began anew in a new folder, not one that was overtaken.
func (s *Server) Adopt(d *snapshot.DNS) error { return s.take(d, true) }

func (s *Server) take(d *snapshot.DNS, anyVersion bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.fromDisk
	s.fromDisk = was || anyVersion // the version of the map before does not count
	err := s.swap(d, false)
	s.metrics.swapped(err)
	if err != nil {
		s.fromDisk = was
		return err
	}
	s.Confirm()
	s.unsaved = true
	s.kept.Store(false)
	signal(s.wake)
	return nil
}

// signal leaves word in a channel that is 1 deep.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Server) swap(d *snapshot.DNS, fromDisk bool) error {
	if d == nil {
		return errors.New("MAP_INVALID: there is no map")
	}
	if d.Version == 0 { // also what an empty file of the right form decodes to: every name would be refused
		return errors.New("MAP_INVALID: the map has no version, so nobody compiled it")
	}
	if s.current != nil && !s.fromDisk && d.Version < s.current.Version {
		return fmt.Errorf("MAP_OLDER: map version %d is refused: version %d answers already: %w", d.Version, s.current.Version, ErrOlder)
	}
	tables := make([]answer.Table, len(d.Tables))
	for i, t := range d.Tables {
		if t != nil {
			tables[i] = t
		}
	}
	old := s.responder.Index()
	if s.fromDisk {
		// What the map calls unchanged may be another control's, and the time left of the deadlines of one on disk is as
		// of the writing of the file.
		old = nil
	}
	ix, err := answer.Build(d, tables, time.Since(s.epoch), old)
	if err != nil {
		return err
	}
	s.takeSecrets(d.Sealed)
	s.takeKeys(d.Signing)
	s.warm(ix)
	s.responder.SetIndex(ix)
	if s.transfers != nil {
		s.transfers.take(d, old == nil)
	}
	s.current, s.fromDisk = d, fromDisk
	return nil
}

// MapInfo describes the map that answers.
type MapInfo struct {
	Version uint64    `json:"version"` // 0: there is none
	Created time.Time `json:"created"`
	// Age is the time since Created by this machine's wall clock, never below 0.
	Age time.Duration `json:"age"`
	// Silence is the time since control was last heard: a map came, or Confirm was called; or since the start. 0 where
	// that is not watched (Config.SilentAfter).
	Silence  time.Duration `json:"silence,omitempty"`
	FromDisk bool          `json:"fromDisk"` // control has sent none since the start
	Names    int           `json:"names"`    // names that exist, empty non-terminals included
}

// Map describes the map that answers now.
func (s *Server) Map() MapInfo { return s.mapInfo() }

func (s *Server) mapInfo() MapInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return MapInfo{Silence: s.silence()}
	}
	return MapInfo{
		Silence: s.silence(),
		Version: s.current.Version, Created: s.current.Created, FromDisk: s.fromDisk,
		Age: max(0, time.Since(s.current.Created)), Names: s.responder.Index().Names(),
	}
}
