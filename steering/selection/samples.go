package selection

import "time"

// MaxSamples is how many results of probes are kept of one endpoint.
const MaxSamples = 100

// Samples are the last results of probes of one endpoint. Several groups may judge them, each by its own numbers. The
// zero value has none.
type Samples struct {
	// latency is that of a success, or failed.
	latency [MaxSamples]time.Duration
	n       int // results so far
}

const failed time.Duration = -1

// Add takes the result of a probe. latency counts to the last byte; of a failure it means nothing.
func (s *Samples) Add(ok bool, latency time.Duration) {
	if !ok {
		latency = failed
	}
	s.latency[s.n%MaxSamples] = latency
	s.n++
}

// Health is what samples say of an endpoint.
type Health struct {
	Good, Seen int // successes among the results looked at
	Healthy    bool
	// Latency is the mean of those successes. Without one it is not Known.
	Latency time.Duration
	Known   bool
}

// Judge looks at the last size results, or at those there are: need successes among them are healthy.
func (s *Samples) Judge(size, need int) Health {
	h := Health{Seen: min(s.n, size, MaxSamples)}
	sum := time.Duration(0)
	for k := range h.Seen {
		if l := s.latency[(s.n-1-k)%MaxSamples]; l != failed {
			h.Good++
			sum += l
		}
	}
	if h.Good > 0 {
		h.Latency, h.Known = sum/time.Duration(h.Good), true
	}
	h.Healthy = h.Good >= need
	return h
}
