package rrdata

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// What Quote writes is read back as the same text by a parser of zone files.
// Covers: issue4 import plan
func TestQuote(t *testing.T) {
	for _, text := range []string{"", "v=spf1 -all", `a "b" \c; d`, strings.Repeat("x", 600), "ümlaut\x01"} {
		rr, err := dns.NewRR("a. TXT " + Quote(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		buf := make([]byte, 2048)
		n, err := dns.PackRR(rr, buf, 0, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for data := buf[13:n]; len(data) > 0; data = data[1+int(data[0]):] { // behind owner, type, class, TTL and length
			got.Write(data[1 : 1+int(data[0])])
		}
		if got.String() != text {
			t.Errorf("%q is read as %q", text, got.String())
		}
	}
}
