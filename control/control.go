// Package control is the control plane of one machine: it keeps resources and decisions in an embedded store, feeds
// the decision core with observations, publishes what name servers and probe points need, and serves the API.
//
// Invariants: nothing is published before it is committed; a decision and its switch-log entry are one transaction; a
// store that fails stops neither name servers nor evaluation; nothing here lies on the way of a visitor's traffic.
package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"steerpoint/control/internal/engine"
	"steerpoint/control/internal/feed"
	"steerpoint/control/internal/moment"
	"steerpoint/control/internal/notify"
	"steerpoint/control/internal/parentds"
	"steerpoint/control/internal/resolve"
	"steerpoint/control/internal/rollout"
	"steerpoint/control/internal/roster"
	"steerpoint/control/internal/store"
	"steerpoint/geo"
	"steerpoint/internal/folder"
	"steerpoint/internal/pki"
	"steerpoint/internal/supervise"
	"steerpoint/report"
	"steerpoint/snapshot"
	"steerpoint/steering"
)

// ErrLocked is matched by New's error when another process runs on the data folder.
var ErrLocked = folder.ErrLocked

// Config says how control runs.
type Config struct {
	Data    string // data folder; made if absent. Required
	Node    string // name of this node; "": local
	Version string // of the program, for people
	// Listen is the API's address; "": 127.0.0.1:7070. Port 0 takes a free one (see Addr).
	Listen string
	// Hosts are names under which the API may be called, besides IP addresses and localhost: another name in the Host
	// header is refused, so that a web page cannot reach a local API by rebinding its own name.
	Hosts []string
	// Points are the probe points of this process. nil: one, named local, without labels; empty: none.
	Points []steering.Point
	// StoreQuota is the most bytes the store may take; 0: 2 GiB.
	StoreQuota int64
	// Rate is how many API requests a second one address may make, over a burst of twice that; 0: 500.
	Rate float64
	// Retention is how long the switch log and the audit trail are kept, and how far back resources can be taken; 0: 90 days.
	Retention time.Duration
	// HistoryBytes is the most bytes history.db may take; 0: 1 GiB. The oldest history goes before its time to keep it.
	HistoryBytes int64
	// SaveEvery is the time between two snapshots of what the core has learnt; 0: 10 s.
	SaveEvery time.Duration
	// TapeBytes and TapeAge bound the tape of what the engine was told; the oldest goes first. 0: 1 GiB and 90 days.
	TapeBytes int64
	TapeAge   time.Duration
	// Cluster is the name of the cluster in certificates, fixed with the first start; "": steer.
	Cluster string
	// CertLife is how long the certificate of a node lives; 0: 24 h. Nodes renew at two thirds of it.
	CertLife time.Duration
	// NotifyLocal lets notifiers post to loopback, link-local and metadata addresses.
	NotifyLocal bool
	// Resolvers, ADDR or ADDR:PORT, find the addresses of names in zones of others, for ALIAS records and at apexes. Empty:
	// those of /etc/resolv.conf.
	Resolvers []string
	// ParentResolver, ADDR or ADDR:PORT, finds the parents of signed zones, whose name servers are then asked for the DS. "":
	// nobody is asked, and what the parent has is what somebody says.
	ParentResolver string
	// SealKey is the file of the sealing key, by which Secrets are kept; made if absent. "": seal.key in Data.
	SealKey string
	// ACME says how certificates are ordered for domains that say auto.
	ACME ACMEConfig
}

// Publisher takes snapshots to those who work by them. It returns when those in this process do, and waits for no node.
type Publisher interface {
	PublishDNS(*snapshot.DNS) error
	PublishProbe(*snapshot.Probe) error
}

// Prober runs one probe now at a point.
type Prober func(ctx context.Context, point string, task snapshot.ProbeTask) (report.Observation, error)

// Question asks what a name server answers.
type Question struct {
	Name     string
	Type     string       // A, AAAA, ...
	Resolver netip.Addr   // where the query comes from
	ECS      netip.Prefix // client subnet; zero: none
}

// Answer is what a name server answers, and from what.
type Answer struct {
	Service, Rule, Scope string
	Source               string // static, resolver or ecs
	Records              []string
	TTL                  time.Duration
	ECSScope             int // -1: no option
	MapVersion           uint64
	Why                  string
}

// Deps is what control is handed.
type Deps struct {
	Publisher Publisher
	Probe     Prober                         // nil: probing now is refused
	Answer    func(Question) (Answer, error) // nil: explanations have no answer section
	Geo       func() *geo.DB                 // the geo data in use; nil: no place is known
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Gatherer  prometheus.Gatherer // served at /metrics; nil: nothing is
	// Previous is the map by which name servers answer until the first one of this process; nil: none. A stored service
	// that this version cannot read keeps its answers of it.
	Previous *snapshot.DNS
	// Nodes is where nodes are connected; nil: none can.
	Nodes NodeHub
	// NoNameServer: no name server runs in this process, so that Publisher hands maps to nodes only.
	NoNameServer bool
	// GeoFiles names the geo data files in use, for backups; nil: none.
	GeoFiles func() []string
	// Record keeps what is measured and answered as series, Series gives it; nil: none are kept.
	Record SeriesRecorder
	Series SeriesReader
	// Gateways takes what gateways work by; nil: there are none.
	Gateways Gateways
	// EdgeNodes takes what goes to gateways on other machines; it waits for none. nil: there can be none.
	EdgeNodes func(*snapshot.EdgePack)
	// GatewayState says what the gateway in this process serves by and knows; nil: there is none.
	GatewayState func() report.NodeEdge
	// AskGateway asks a gateway what it would do with a request: that of this process by the name of its node, or a joined one. nil:
	// none can be asked.
	AskGateway func(ctx context.Context, node string, q report.EdgeQuestion) (report.EdgeAnswer, error)
	// Listeners tells the bound addresses of other roles, for status; nil: none.
	Listeners func() map[string]string

	// KeyTrouble says what keys the name server in this process lacks; "": none. nil: there is none.
	KeyTrouble func() string

	watchWrite time.Duration        // how long a watcher may take to read; 0: 10 s
	machine    func() moment.Moment // clocks; nil: the machine's
	store      func(*store.Store) committer
	exchange   resolve.Exchange // asks resolvers; nil: over the network
	// parentExchange asks for the DS of zones; nil: over the network.
	parentExchange parentds.Exchange
	// notifyTiming: of notifications; zero: as documented
	notifyTiming notify.Timing
	// sealStep is called before each change of a rotation, and ends it there by an error; sealBatch takes the place of that
	// constant. For tests.
	sealStep  func(what string) error
	sealBatch int
	// zoneKeyWaits takes the place of the TTL of DNSKEY records and of the margin of rolls; 0: as documented.
	zoneKeyWaits time.Duration
	updateWait   time.Duration // of DNS updates; 0: as documented
}

// Control is the control plane. Make it with New, then Run it.
type Control struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	metrics *metrics
	folder  *folder.Folder
	store   *store.Store
	commits committer // the store, or a test's
	tape    *recorder
	started time.Time
	token   string
	ln      net.Listener

	present // engine and clock; the engine is owned by the loop once Run has started

	observations chan report.Observation
	calls        chan func()
	nodeNews     chan struct{}    // a node came, went or changed
	pointsSet    steering.Instant // when the engine was last given other points; owned by the loop
	done         chan struct{}    // closed when the loop has ended

	authority *pki.Authority
	roster    *roster.Roster
	rollout   rollout.Tracker
	enrolling gate // one change of tokens and nodes at a time
	exports   gate // one export of the tape at a time
	backups   gate // one backup at a time
	apiTokens apiTokens
	reading   gate // so many queries of series at a time

	feed     *feed.Feed
	alarms   alarms
	news     news
	queue    commitQueue
	answers  answers
	saver    saver
	switches rateOfSwitches
	history  history
	secrets  secrets
	resolver *resolve.Keeper
	cookies  cookies
	dnssec   dnssec
	edges    edges
	gateways gatewayNodes
	orders   orders
	certEnds endsNow
	shared   shared
	parents  parents
	updates  updates
	shown    shownRevision
	served   servedZones // owned by the loop

	resources resources // owned by the loop: what is stored, as far as it was read
	writing   sync.Mutex
	applied   appliedRevision
	current   map[string]string // switch each rule stands on, owned by the loop
	seen      pointsSeen
	softDirty atomic.Bool
	ready     atomic.Bool
	flagged   map[string]bool // rules with an alarm of their own; owned by the loop
	deletes   deletions
	parsed    parseCache
	// localTrouble names the points that cannot probe, each with the task that showed it; owned by the loop.
	localTrouble map[string]string
	certificates certificates
	probeSent    map[string]uint64 // version of the probe snapshot last taken by each point; owned by the loop
	probeFailed  map[string]probeFailure
}

// New opens the data folder and the store, reads what is known and binds the API's listener. Nothing runs yet.
func New(ctx context.Context, cfg Config, deps Deps) (*Control, error) {
	cfg = cfg.withDefaults()
	if deps.Geo == nil {
		deps.Geo = func() *geo.DB { return geo.New() }
	}
	if deps.watchWrite == 0 {
		deps.watchWrite = watchWrite
	}
	if deps.machine == nil {
		deps.machine = moment.Machine
	}
	dir, err := folder.Open(cfg.Data)
	if err != nil {
		return nil, err
	}
	c := &Control{
		cfg: cfg, deps: deps, log: deps.Log, folder: dir,
		observations: make(chan report.Observation, 1<<14), calls: make(chan func(), 64), done: make(chan struct{}),
		nodeNews: make(chan struct{}, 1), enrolling: make(gate, 1), exports: make(gate, 1), backups: make(gate, 1),
		feed: feed.New(4096, time.Now()), present: present{engine: engine.New(cfg.Points)}, current: map[string]string{}, probeSent: map[string]uint64{}, probeFailed: map[string]probeFailure{}, localTrouble: map[string]string{}, flagged: map[string]bool{},
	}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (cfg Config) withDefaults() Config {
	if cfg.Node == "" {
		cfg.Node = "local"
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:7070"
	}
	if cfg.Points == nil {
		cfg.Points = []steering.Point{{Name: "local"}}
	}
	if cfg.Rate == 0 {
		cfg.Rate = 500
	}
	if cfg.Retention == 0 {
		cfg.Retention = 90 * 24 * time.Hour
	}
	if cfg.Cluster == "" {
		cfg.Cluster = "steer"
	}
	if cfg.CertLife == 0 {
		cfg.CertLife = 24 * time.Hour
	}
	if cfg.SealKey == "" {
		cfg.SealKey = filepath.Join(cfg.Data, "seal.key")
	}
	if cfg.SaveEvery == 0 {
		cfg.SaveEvery = 10 * time.Second
	}
	return cfg
}

func (c *Control) open(ctx context.Context) error {
	var err error
	if c.token, err = c.folder.Token(); err != nil {
		return err
	}
	if c.metrics, err = newMetrics(c.deps.Metrics, c); err != nil {
		return fmt.Errorf("metrics of control: %w", err)
	}
	if c.ln, err = net.Listen("tcp", c.cfg.Listen); err != nil {
		return fmt.Errorf("API listener: %w", err)
	}
	c.saver.path = filepath.Join(c.cfg.Data, "core.state")
	if err := c.refuseLostStore(); err != nil {
		return err
	}
	if err := c.openAuthority(); err != nil {
		return err
	}
	if c.store, err = store.Open(ctx, store.Config{Dir: filepath.Join(c.cfg.Data, "etcd"), Quota: c.cfg.StoreQuota}, c.log); err != nil {
		return err
	}
	c.commits = c.store
	if c.deps.store != nil {
		c.commits = c.deps.store(c.store)
	}
	c.alarms.init(c)
	c.apiTokens.init()
	c.queue.init()
	c.answers.init()
	c.applied.init()
	c.edges.init()
	c.updates.init()
	c.shown.init()
	c.reading = make(gate, seriesReaders)
	c.waits, c.certificate = c.queue.waits, c.certificates.of
	c.secrets.path, c.secrets.log = c.cfg.SealKey, c.log
	if err := c.openNews(); err != nil {
		return err
	}
	if err := c.openDNSSEC(ctx); err != nil { // before the sealing key is looked for: it is known then whether one is needed
		return err
	}
	if err := c.openOrders(ctx); err != nil { // for the same reason
		return err
	}
	if err := c.restore(ctx); err != nil {
		return err
	}
	c.openHistory(ctx)
	c.sweepBackup()
	c.openResolver()
	if err := c.openParents(); err != nil {
		return err
	}
	return c.loadAPITokens(ctx)
}

func (c *Control) authorityDir() string { return filepath.Join(c.cfg.Data, "ca") }

// openAuthority loads the cluster's certificate authority, or makes it on the first start.
func (c *Control) openAuthority() error {
	dir := c.authorityDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	var err error
	c.authority, err = pki.OpenAuthority(dir, c.cfg.Cluster, c.deps.machine().Wall)
	return err
}

// refuseLostStore refuses a folder whose store is gone while what the core learnt from it is still there: taking it for
// a new installation would publish an empty map over the good one.
func (c *Control) refuseLostStore() error {
	dir := filepath.Join(c.cfg.Data, "etcd")
	if store.Exists(dir) {
		return nil
	}
	if _, err := os.Stat(c.saver.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("store missing: %s is gone or empty, and %s says that this folder was in use. Nothing was changed; "+
		"name servers answer on by the map in this folder (steer node --roles dns). Put the store back, or move the whole "+
		"folder away and apply your resources to a new one", dir, c.saver.path)
}

// Close gives up what New took, if Run was never called; Run does it itself.
func (c *Control) Close() error {
	var errs []error
	if c.ln != nil {
		if err := c.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, fmt.Errorf("API listener: %w", err))
		}
	}
	if c.history.file != nil {
		if err := c.history.file.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	if c.store != nil {
		if err := c.store.Close(); err != nil {
			errs = append(errs, fmt.Errorf("store: %w", err))
		}
	}
	return errors.Join(append(errs, c.folder.Close())...)
}

// Addr is the bound address of the API.
func (c *Control) Addr() net.Addr { return c.ln.Addr() }

// Token is the admin token, for programs in the same process.
func (c *Control) Token() string { return c.token }

// Run works until ctx ends, saves what is known and closes everything. It fails only when the API cannot be served.
func (c *Control) Run(ctx context.Context) error {
	g := supervise.New(ctx)
	g.Go("evaluation", c.evaluate)
	g.Go("commits", c.commitAll)
	g.Go("publication", c.publish)
	g.Go("resources", c.follow)
	g.Go("housekeeping", c.housekeep)
	g.Go("history", c.keepHistory)
	g.Go("notifications", c.tellNews)
	g.Go("API", c.serve)
	g.Go("tape", c.runTape)
	g.Go("sealing key", c.watchSealKey)
	g.Go("names elsewhere", c.resolver.Run)
	g.Go("DNS cookies", c.turnCookies)
	g.Go("zone keys", c.keepZoneKeys)
	g.Go("gateways", c.publishEdges)
	g.Go("certificates", c.keepOrders)
	g.Go("shared secrets", c.keepShared)
	g.Go("parents of signed zones", c.watchParents)
	err := g.Wait()
	c.stopped()
	return errors.Join(err, c.Close())
}

// GeoChanged says that Deps.Geo gives other data now: tables are compiled anew and published.
func (c *Control) GeoChanged() { c.answers.mark() }

// do runs f in the evaluation loop and waits for it.
func (c *Control) do(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	call := func() { defer close(ran); f() }
	select {
	case c.calls <- call:
	case <-c.done:
		return errStopping
	case <-ctx.Done():
		return fmt.Errorf("evaluation is busy: %w", ctx.Err())
	}
	select {
	case <-ran:
		return nil
	case <-c.done:
		return errStopping
	}
}

var errStopping = errors.New("control is stopping")
