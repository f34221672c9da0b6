package cells

import (
	"fmt"
	"testing"
	"time"

	"steerpoint/report"
)

// BenchmarkMeasured is what one observation costs the loop of control, with 1,000 edges.
func BenchmarkMeasured(b *testing.B) {
	book := NewBook()
	m := make([]report.Measurement, 1000)
	for i := range m {
		rule := fmt.Sprint("r", i/3)
		m[i] = report.Measurement{Service: fmt.Sprint("s", i/30), Rule: rule, Edge: fmt.Sprint("e", i%3), Address: "192.0.2.1", OK: true, Latency: 23 * time.Millisecond}
		book.Answered(report.Answer{At: begin.Add(-time.Hour), Service: m[i].Service, Rule: rule, Targets: []report.AnswerTarget{{Edge: "e0", Address: "192.0.2.1", Weight: 1}}})
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		o := &m[n%len(m)]
		o.At = begin.Add(time.Duration(n) * 10 * time.Millisecond) // each edge every ten seconds
		book.Measured(*o)
		if n%10_000 == 9_999 {
			book.Close(o.At)
		}
	}
}
