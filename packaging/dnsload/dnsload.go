// Package dnsload asks a name server at a steady rate and says what became of every single query: tests of upgrades and
// of packages stand on it. Nothing is ever asked twice over UDP, so one query that is lost shows.
package dnsload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

const (
	// rate is the queries a second over UDP, of all sources together.
	rate = 2000
	// sources is the number of ports they come from: the kernel chooses the server's socket by it.
	sources = 50
	// pending bounds what is not answered yet. So many fit the least buffer a socket gets (212,992 octets, of which a small
	// packet takes 768), and the queue of the loopback device (1,000 packets of a processor, of all programs together) beside
	// other loads: on a machine that starts a program slowly the load waits rather than overflows them.
	pending = 100
	// overTCP is the pause between two connections.
	overTCP = 5 * time.Millisecond
)

// Load is a load on one name server. Make it with Start, and end it with Stop.
type Load struct {
	server, name, address string
	patience              time.Duration
	began                 time.Time
	end                   context.CancelFunc
	running               sync.WaitGroup

	udp, tcp, again, answered, wrong atomic.Int64
	longest                          atomic.Int64 // nanoseconds

	mu     sync.Mutex
	failed error
}

// Start asks server, ADDR:PORT, for the A record of name until Stop, 2,000 times a second over UDP and over one TCP
// connection after another. Right is an answer with the one address. A query is lost when it is not answered within patience.
func Start(server, name, address string, patience time.Duration) (*Load, error) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{server: server, name: dns.Fqdn(name), address: address, patience: patience, began: time.Now(), end: cancel}
	var conns []net.Conn
	for range sources {
		c, err := net.Dial("udp", server)
		if err != nil {
			cancel()
			for _, c := range conns {
				_ = c.Close() // nothing was asked
			}
			return nil, fmt.Errorf("load: %w", err)
		}
		conns = append(conns, c)
	}
	for i, c := range conns {
		sent := make(chan time.Time, pending/sources)
		l.running.Go(func() { l.send(ctx, c, sent, time.Duration(i)*time.Second/rate) })
		l.running.Go(func() { l.receive(c, sent) })
	}
	l.running.Go(func() { l.connect(ctx) })
	return l, nil
}

// Answered is how many queries were answered rightly so far.
func (l *Load) Answered() int64 { return l.answered.Load() }

// Err is the first failure so far.
func (l *Load) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
}

// Result is what became of the queries.
type Result struct {
	UDP       int64         `json:"udp"` // asked
	TCP       int64         `json:"tcp"`
	Answered  int64         `json:"answered"` // rightly
	Wrong     int64         `json:"wrong"`
	Again     int64         `json:"again"`     // TCP connections that ended before the answer, and were made anew
	Longest   time.Duration `json:"longestNs"` // between a query over UDP and its answer
	PerSecond int64         `json:"perSecond"` // over UDP
}

// Stop ends the load, waits for what is open, and says what became of it. The error says that a query was lost or
// answered wrongly, and how many were asked.
func (l *Load) Stop() (Result, error) {
	l.end()
	seconds := time.Since(l.began).Seconds()
	l.running.Wait()
	r := Result{
		UDP: l.udp.Load(), TCP: l.tcp.Load(), Answered: l.answered.Load(), Wrong: l.wrong.Load(), Again: l.again.Load(),
		Longest: time.Duration(l.longest.Load()), PerSecond: int64(float64(l.udp.Load()) / seconds),
	}
	err := l.Err()
	if err == nil && r.Answered == 0 {
		err = errors.New("nothing was asked")
	}
	if lost := r.UDP + r.TCP - r.Answered - r.Wrong; err == nil && (lost != 0 || r.Wrong != 0) {
		err = fmt.Errorf("of %d queries %d were lost and %d answered wrongly", r.UDP+r.TCP, lost, r.Wrong)
	}
	return r, err
}

func (l *Load) query(id uint16) ([]byte, error) {
	m := new(dns.Msg)
	m.SetQuestion(l.name, dns.TypeA)
	m.Id = id
	return m.Pack()
}

// send asks at its share of the rate, unless too much is open.
func (l *Load) send(ctx context.Context, c net.Conn, sent chan<- time.Time, offset time.Duration) {
	defer close(sent)
	time.Sleep(offset)
	tick := time.NewTicker(sources * time.Second / rate)
	defer tick.Stop()
	for id := uint16(0); ; id++ {
		q, err := l.query(id)
		if err != nil {
			l.fail(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
			return
		case sent <- time.Now():
		}
		l.udp.Add(1)
		if _, err := c.Write(q); err != nil {
			l.fail(fmt.Errorf("query %d from %s was not taken: %w", id, c.LocalAddr(), err))
			return
		}
	}
}

// receive takes the answers, which come in the order of the queries of one port.
func (l *Load) receive(c net.Conn, sent <-chan time.Time) {
	defer c.Close()
	buf := make([]byte, 4096)
	id := uint16(0)
	for at := range sent {
		err := c.SetReadDeadline(time.Now().Add(l.patience))
		n := 0
		if err == nil {
			n, err = c.Read(buf)
		}
		if err != nil {
			l.fail(fmt.Errorf("query %d from %s was not answered: %w", id, c.LocalAddr(), err))
			l.end()
			return
		}
		l.check(buf[:n], id)
		l.took(time.Since(at))
		id++
	}
}

func (l *Load) took(d time.Duration) {
	for {
		old := l.longest.Load()
		if int64(d) <= old || l.longest.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

func (l *Load) check(b []byte, id uint16) {
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil || m.Id != id || len(m.Answer) != 1 || !strings.HasSuffix(m.Answer[0].String(), "\tA\t"+l.address) {
		l.wrong.Add(1)
		return
	}
	l.answered.Add(1)
}

// connect asks over one connection after another. One that ends before the answer is made anew once, as RFC 7766
// section 6.2.4 has clients do.
func (l *Load) connect(ctx context.Context) {
	for id := uint16(0); ctx.Err() == nil; id++ {
		b, err := l.askTCP(id)
		if err != nil {
			l.again.Add(1)
			b, err = l.askTCP(id)
		}
		if err != nil {
			l.fail(fmt.Errorf("query %d over TCP was not answered: %w", id, err))
			l.end()
			return
		}
		l.tcp.Add(1)
		l.check(b, id)
		time.Sleep(overTCP)
	}
}

func (l *Load) askTCP(id uint16) ([]byte, error) {
	c, err := dns.DialTimeout("tcp", l.server, l.patience)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(l.patience)); err != nil {
		return nil, err
	}
	q, err := l.query(id)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(q); err != nil {
		return nil, err
	}
	m, err := c.ReadMsg()
	if err != nil {
		return nil, err
	}
	return m.Pack()
}
