package probe

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"steerpoint/snapshot"
)

// Config of a Prober. Point is needed; the zero value of every other field is a default that works.
type Config struct {
	// Point is the name of this probe point.
	Point string
	// Version is sent as User-Agent steerpoint-probe/<version>. Empty: dev.
	Version string
	// Concurrency is how many probes may run at once that began less than a quarter second ago. 0: 256.
	Concurrency int
	// Waiting is how many more may run at once that wait longer than that for their target: each costs a connection
	// and some 40 KiB, and no processor. 0: 4 x Concurrency.
	Waiting int
	// QueueSize is how many observations may wait for their receiver. 0: 8192.
	QueueSize int
	// StartWindow is the time over which the first probes of new tasks are spread, at most their interval. 0: 1s.
	StartWindow time.Duration
	// AllowLocal lets loopback, link-local, multicast and cloud metadata addresses be probed. false: they are refused,
	// also when a target's name resolves to one.
	AllowLocal bool
	// RootCAs verify the targets' certificates. nil: the system's. For a private authority beside the public ones add
	// it to x509.SystemCertPool.
	RootCAs *x509.CertPool
	// Resolver resolves targets that are names. nil: the system's configuration, by Go's resolver.
	Resolver Resolver
}

// Resolver turns a name into addresses. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	defaultConcurrency = 256
	waitingFactor      = 4
	defaultQueueSize   = 8192
	defaultStartWindow = time.Second
	// patience is how long a probe counts as being on its way: a target that takes longer than a few round trips
	// around the world costs only memory, and must not hold a place another probe needs.
	patience = 250 * time.Millisecond
)

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Point == "":
		return c, errors.New("probe config: Point is empty; every probe point needs a name")
	case c.Concurrency < 0, c.Waiting < 0, c.QueueSize < 0, c.StartWindow < 0:
		return c, errors.New("probe config: Concurrency, Waiting, QueueSize and StartWindow may not be negative")
	case strings.ContainsFunc(c.Version, func(r rune) bool { return r <= ' ' || r > '~' }):
		return c, fmt.Errorf("probe config: Version %q cannot stand in a User-Agent", c.Version)
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Concurrency == 0 {
		c.Concurrency = defaultConcurrency
	}
	if c.Waiting == 0 {
		c.Waiting = waitingFactor * c.Concurrency
	}
	if c.QueueSize == 0 {
		c.QueueSize = defaultQueueSize
	}
	if c.StartWindow == 0 {
		c.StartWindow = defaultStartWindow
	}
	return c, nil
}

// Codes of the errors of Apply, stable words for people and programs.
const (
	CodeOtherPoint  = "PROBE_OTHER_POINT"
	CodeTaskRefused = "PROBE_TASK_REFUSED"
)

// ErrOtherPoint is returned for a snapshot that is for another point.
var ErrOtherPoint = errors.New(CodeOtherPoint)

// TaskError is a task this point does not probe. The other tasks of its snapshot are probed.
type TaskError struct {
	ID   string
	Name string // kind, URL and address, for people
	Err  error  // the field and what is wrong with it
}

// Error is one line.
func (e *TaskError) Error() string {
	return fmt.Sprintf("%s: task %s (%s): %v", CodeTaskRefused, e.ID, e.Name, e.Err)
}

// Unwrap returns what is wrong.
func (e *TaskError) Unwrap() error { return e.Err }

// taskName says what a task probes, such as "https https://www.example.com/ at 192.0.2.1 port 443".
func taskName(t *snapshot.ProbeTask) string {
	name := t.Kind
	if t.URL != "" {
		name += " " + t.URL
	}
	return fmt.Sprintf("%s at %s port %d", name, t.Address, t.Port)
}
