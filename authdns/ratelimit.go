package authdns

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"steerpoint/authdns/internal/rrl"
)

// RateLimit is how many replies over UDP one network, an IPv4 /24 or an IPv6 /56, gets in a second if its queries bring
// no cookie of ours. The zero value has the defaults: limits that resolvers do not meet, and floods do.
type RateLimit struct {
	// Off: there are no limits.
	Off bool
	// Answers of one name, its NODATA included, that do not depend on the client subnet. 0: 200; -1: no limit.
	Answers int
	// NXDomains of one zone, whatever the name. 0: 200; -1: no limit.
	NXDomains int
	// Errors of the server: REFUSED, FORMERR and the like. 0: 100; -1: no limit.
	Errors int
	// Total of all replies. 0: 5000; -1: no limit.
	Total int
	// Slip: one reply in so many that are over a limit is sent empty, with TC, so that whoever really asks comes back over
	// TCP; the others are dropped. 0: 1, every one: a resolver whose replies are dropped waits, and is easier to deceive.
	// -1: all are dropped.
	Slip int
	// Exempt are networks without limits. nil: loopback, whose addresses nobody can forge from elsewhere.
	Exempt []netip.Prefix
}

// burst is how much of a second's limit may come at once: caches that expire together ask together.
const burst = 2 * time.Second

func (l *RateLimit) withDefaults() error {
	orInt(&l.Answers, 200)
	orInt(&l.NXDomains, 200)
	orInt(&l.Errors, 100)
	orInt(&l.Total, 5000)
	orInt(&l.Slip, 1)
	if l.Exempt == nil {
		l.Exempt = Loopback()
	}
	for _, n := range []int{l.Answers, l.NXDomains, l.Errors, l.Total} {
		if n < -1 || n > rrl.MaxRate {
			return fmt.Errorf("name server config: a rate limit is %d: want -1 (none), or up to %d a second", n, rrl.MaxRate)
		}
	}
	if l.Slip < -1 {
		return fmt.Errorf("name server config: RateLimit.Slip is %d: want -1 (none) or a count", l.Slip)
	}
	return nil
}

// Loopback are the networks that are exempt unless others are named.
func Loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// limiter makes what counts; nil: there are no limits.
func (l *RateLimit) limiter() *rrl.Limiter {
	if l.Off {
		return nil
	}
	return rrl.New(rrl.Config{
		Answers: l.Answers, NXDomains: l.NXDomains, Errors: l.Errors, Total: l.Total,
		Burst: burst, Slip: l.Slip, Exempt: l.Exempt,
	})
}

// mostConnections is how many connections there may be where files are no matter: an idle one takes less than 4 KB,
// an encrypted one some 20.
const mostConnections = 10_000

// connectionsFor is how many connections may be open in a process that may open so many files: half of them are for all
// else there is.
func connectionsFor(files uint64) int {
	return int(min(mostConnections, max(files/2, 1)))
}

// openFiles is how many files the process may open.
func openFiles() uint64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 2 * mostConnections
	}
	return l.Cur // the runtime raised it to what is allowed
}
