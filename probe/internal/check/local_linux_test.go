package check

import (
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"steerpoint/report"
)

// deaf is an address that answers no SYN: a listener of backlog 0 whose queue is full.
func deaf(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := sa.(*syscall.SockaddrInet4)
	for range 4 { // more than backlog + 1
		c, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(c) })
		if err := syscall.Connect(c, addr); err != nil && err != syscall.EINPROGRESS {
			t.Fatal(err)
		}
	}
	return netip.AddrPortFrom(netip.AddrFrom4(addr.Addr), uint16(addr.Port))
}

// TestConnectTimeout: a host that drops what comes: a full accept queue answers no SYN.
func TestConnectTimeout(t *testing.T) {
	addr := deaf(t)
	tk := task("tcp", addr)
	tk.Timeout = short
	o := run(t, newChecker(Config{}), tk)
	wantFailure(t, o, report.CauseTimeout, "while connecting")
	if o.Phases.Connect != 0 || o.Phases.Total < short {
		t.Errorf("phases %+v", o.Phases)
	}
}

// TestNoDescriptorsLeft: a point out of file descriptors says so and votes for nothing.
func TestNoDescriptorsLeft(t *testing.T) {
	p := serve(t, "127.0.0.1:0", hold)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	now := was
	now.Cur = 3 // stdin, stdout and stderr are open, so nothing more can be
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	o := run(t, newChecker(Config{}), task("tcp", p.addr))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, o, report.CauseLocal, "no file descriptor left")
	if o.Counts() {
		t.Error("it votes")
	}
}

// TestNoDescriptorLeaks: whatever way a probe ends, its connection is closed.
func TestNoDescriptorLeaks(t *testing.T) {
	open := func() int {
		es, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skipf("descriptors cannot be counted here: %v", err)
		}
		return len(es)
	}
	ca := newAuthority(t)
	silent := serve(t, "127.0.0.1:0", hold)
	breaks := serve(t, "127.0.0.1:0", answer("HTTP/1.1 200 OK\r\nServ"))
	secure := serve(t, "127.0.0.1:0", overTLS(ca.config(t, true, "www.example.com"), answer(well)))
	dead := deaf(t)
	c := newChecker(Config{Roots: ca.roots})
	round := func() {
		for _, tk := range []struct {
			kind string
			to   netip.AddrPort
		}{{"http", silent.addr}, {"https", silent.addr}, {"http", breaks.addr}, {"https", breaks.addr}, {"https", secure.addr}, {"tcp", dead}} {
			tk := task(tk.kind, tk.to)
			tk.Timeout = short / 5
			if o := run(t, c, tk); o.OK {
				t.Fatalf("got %+v", o)
			}
		}
	}
	round() // what is opened once (the poller) is open now
	before := open()
	for range 20 {
		round()
	}
	// The servers of this test close theirs a little later; a leak would be more than a hundred.
	after := open()
	for end := time.Now().Add(plenty); after > before+40 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		after = open()
	}
	if after > before+40 {
		t.Errorf("%d descriptors before 120 probes, %d after", before, after)
	}
}
