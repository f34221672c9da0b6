package importer

import (
	"time"

	"steerpoint/spec"
)

// Probe is how the edges of a rule are probed. Zero values are spec's defaults.
type Probe struct {
	Off               bool
	URL               string // valid, as spec.ProbeURL reads it
	Method            string
	Interval, Timeout time.Duration
	Fall, Rise        int
	Status            string // such as 200-399
	Body              string
	Insecure          bool // the certificate is not verified
}

func (p Probe) spec(out spec.Probe) spec.Probe {
	out.Enabled = !p.Off
	if p.Off {
		return out
	}
	if p.URL != "" {
		out.URL = spec.ProbeURL(p.URL)
	}
	if p.Method != "" {
		out.Method = p.Method
	}
	if p.Interval > 0 {
		out.Interval = spec.Duration(p.Interval)
	}
	if p.Timeout > 0 {
		out.Timeout = spec.Duration(p.Timeout)
	}
	if p.Fall > 0 {
		out.Fall = p.Fall
	}
	if p.Rise > 0 {
		out.Rise = p.Rise
	}
	if p.Status != "" {
		var s spec.StatusRanges
		if s.UnmarshalText([]byte(p.Status)) == nil {
			out.Expect.Status = s
		}
	}
	out.Expect.Body = p.Body
	out.Expect.TLSVerify = !p.Insecure
	return out
}

// ProbeURL gives a URL in its one form.
func ProbeURL(text string) (string, error) {
	var u spec.ProbeURL
	err := u.UnmarshalText([]byte(text))
	return string(u), err
}
