package h1

import (
	"fmt"
	"strings"
	"testing"
)

// parts is a connection that gives one part after the other, and notes what each was read by.
type parts struct {
	list  []string
	sizes []Size
}

func (p *parts) Read(b []byte) (int, error) {
	s := script{data: p.list[0]}
	n, err := s.Read(b)
	if p.list[0] = s.data; s.data == "" && len(p.list) > 1 {
		p.list = p.list[1:]
	}
	return n, err
}

func (p *parts) ReadLent(pool *Pool, size Size) (*Buffer, int, error) {
	p.sizes = append(p.sizes, size)
	b := pool.Lend(size)
	n, err := p.Read(b.B)
	if err != nil {
		pool.Return(b)
		return nil, 0, err
	}
	return b, n, nil
}

// A stream of small parts is read by small buffers, since thousands of them may get one at once; what is large, or was announced,
// by large ones.
//
// Covers: issue6 codec buffers
func TestStreamsAreReadBySmallBuffers(t *testing.T) {
	chunk := func(n int) string { return fmt.Sprintf("%x\r\n%s\r\n", n, strings.Repeat("x", n)) }
	for name, row := range map[string]struct {
		head  string
		parts []string
		want  []Size
	}{
		"events":                 {"Transfer-Encoding: chunked", []string{chunk(100), chunk(100), chunk(100)}, []Size{Small, Small, Small}},
		"a large part":           {"Transfer-Encoding: chunked", []string{chunk(100), chunk(12_000), chunk(100), chunk(100)}, []Size{Small, Small, Large, Large, Small}},
		"until the end":          {"X: y", []string{strings.Repeat("x", 4096), strings.Repeat("x", 100)}, []Size{Small, Large}},
		"announced":              {"Content-Length: 5000", []string{strings.Repeat("x", 10), strings.Repeat("x", 4990)}, []Size{Large, Large}},
		"announced, small parts": {"Content-Length: 30", []string{strings.Repeat("x", 10), strings.Repeat("x", 10), strings.Repeat("x", 10)}, []Size{Large, Large, Large}},
	} {
		p := &parts{list: append([]string{"HTTP/1.1 200 OK\r\n" + row.head + "\r\n\r\n"}, row.parts...)}
		r := NewReader(p, NewPool(), Limits{}, Large)
		var resp Response
		if err := r.Response(&resp, false); err != nil {
			t.Fatal(err)
		}
		p.sizes = nil
		for range row.want {
			if _, err := r.Next(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if fmt.Sprint(p.sizes) != fmt.Sprint(row.want) {
			t.Errorf("%s: read by %v, want %v", name, p.sizes, row.want)
		}
		r.Close()
	}
}
