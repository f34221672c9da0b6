package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// minReceive is the UDP receive buffer the name server asks for: one second of 20,000 queries of 100 bytes, with the
// kernel's own cost of 100 bytes each.
const minReceive = 4 << 20

// Buffers checks the largest UDP receive buffer the kernel gives. path is /proc/sys/net/core/rmem_max.
func Buffers(path string) Check {
	return func(context.Context) []Result {
		b, err := os.ReadFile(path)
		n, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
		switch {
		case err != nil || convErr != nil:
			return one("buffers", Unknown, "the limit of UDP receive buffers is not known here", "")
		case n < minReceive:
			return one("buffers", Warn, fmt.Sprintf("UDP receive buffers end at %d KiB; bursts of queries are lost", n>>10),
				fmt.Sprintf("sysctl -w net.core.rmem_max=%d", minReceive))
		}
		return one("buffers", OK, fmt.Sprintf("UDP receive buffers up to %d KiB", n>>10), "")
	}
}

// minFiles is what a busy server needs: 1,000 TCP clients of DNS, as many of the API, probes and the store.
const minFiles = 4096

// Files checks the limit of open files.
func Files(context.Context) []Result {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return one("open files", Unknown, "the limit of open files is not known here: "+err.Error(), "")
	}
	if l.Cur < minFiles {
		return one("open files", Warn, fmt.Sprintf("%d open files allowed; %d are wanted", l.Cur, minFiles), fmt.Sprintf("ulimit -n %d, or LimitNOFILE= in the unit", minFiles))
	}
	return one("open files", OK, fmt.Sprintf("%d allowed", l.Cur), "")
}

// GatewayConnections is how many connections of clients a gateway takes that is not told otherwise.
const GatewayConnections = 10_000

// gatewayRest is what a gateway needs besides: listeners, idle connections to origins, probes, control.
const gatewayRest = 1000

// GatewayFiles checks the limit of open files against the connections a gateway may have: each has one to an origin.
func GatewayFiles(connections int) Check {
	return func(context.Context) []Result {
		const name = "open files of the gateway"
		var l unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			return one(name, Unknown, "the limit of open files is not known here: "+err.Error(), "")
		}
		if want := uint64(2*connections + gatewayRest); l.Cur < want {
			return one(name, Warn, fmt.Sprintf("%d open files allowed; %d connections of clients want %d", l.Cur, connections, want),
				fmt.Sprintf("LimitNOFILE=%d in the unit, or fewer edge.connections in steer.yaml", want))
		}
		return one(name, OK, fmt.Sprintf("%d allowed, enough for %d connections of clients", l.Cur, connections), "")
	}
}

// Space below which the data folder is called full: the store's quota is 2 GiB and needs as much again to compact.
const (
	wantSpace = 4 << 30
	needSpace = 256 << 20
)

// Folder checks that the data folder can be written, is nobody else's business, and has room.
func Folder(dir string) Check {
	return func(context.Context) []Result {
		rs := writable(dir)
		if rs[0].Level == Fail {
			return rs
		}
		return append(rs, space(existing(dir))...)
	}
}

func writable(dir string) []Result {
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if unix.Access(existing(dir), unix.W_OK) != nil {
			return one("data folder", Fail, dir+" does not exist and cannot be made", "give --data DIR")
		}
		return one("data folder", OK, dir+" does not exist yet; it will be made", "")
	}
	switch {
	case err != nil:
		return one("data folder", Fail, err.Error(), "give --data DIR")
	case !st.IsDir():
		return one("data folder", Fail, dir+" is not a folder", "give --data DIR")
	case st.Mode().Perm()&0o077 != 0:
		return one("data folder", Warn, fmt.Sprintf("%s can be read by others (mode %04o); it holds the token and the store", dir, st.Mode().Perm()), "chmod 700 "+dir)
	}
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return one("data folder", Fail, dir+" cannot be written: "+err.Error(), "run as its owner, or give --data DIR")
	}
	if err := errors.Join(f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
		return one("data folder", Fail, dir+" cannot be written: "+err.Error(), "look at the disk")
	}
	return one("data folder", OK, dir+" is writable", "")
}

func space(dir string) []Result {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return one("disk space", Unknown, "not known here: "+err.Error(), "")
	}
	free := st.Bavail * uint64(st.Bsize)
	text := fmt.Sprintf("%.1f GiB free under %s", float64(free)/(1<<30), dir)
	switch {
	case free < needSpace:
		return one("disk space", Fail, text, "make room: decisions cannot be kept on a full disk")
	case free < wantSpace:
		return one("disk space", Warn, text, "the store wants 4 GiB")
	}
	return one("disk space", OK, text, "")
}

// existing is dir or the nearest folder above it that exists.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// Port checks that role can listen on addr: network is "tcp" or "udp". held is the address a running steer of this
// data folder listens on for the role; it is in use, and rightly.
func Port(role, network, addr, held string) Check {
	return func(ctx context.Context) []Result {
		name := "port " + role + " " + network
		if held != "" {
			return one(name, OK, held+" is in use by the running steer", "")
		}
		err := tryListen(ctx, network, addr)
		switch {
		case err == nil:
			return one(name, OK, addr+" is free", "")
		case errors.Is(err, syscall.EADDRINUSE):
			return one(name, Fail, addr+" is taken by another program", fmt.Sprintf("stop it, or start with --listen %s=ADDR:PORT", role))
		case errors.Is(err, syscall.EACCES):
			return one(name, Fail, "no right to listen on "+addr, "give the program CAP_NET_BIND_SERVICE, or start with --listen "+role+"=ADDR:PORT")
		}
		return one(name, Fail, err.Error(), "start with --listen "+role+"=ADDR:PORT")
	}
}

func tryListen(ctx context.Context, network, addr string) error {
	var lc net.ListenConfig
	if network == "udp" {
		c, err := lc.ListenPacket(ctx, network, addr)
		if err != nil {
			return err
		}
		return c.Close()
	}
	l, err := lc.Listen(ctx, network, addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// oldGeo is when a country table has drifted enough to matter: registries move about 1 % of their blocks a quarter.
const oldGeo = 180 * 24 * time.Hour

// Geo checks the age of the geo data; a zero date is a table that does not say.
func Geo(name string, made, now time.Time) Check {
	return func(context.Context) []Result {
		switch {
		case made.IsZero():
			return one("geo data", Unknown, name+" does not say when it was made", "")
		case now.Sub(made) > oldGeo:
			return one("geo data", Warn, fmt.Sprintf("%s was made on %s", name, made.Format(time.DateOnly)), "load a newer database")
		}
		return one("geo data", OK, fmt.Sprintf("%s was made on %s", name, made.Format(time.DateOnly)), "")
	}
}
