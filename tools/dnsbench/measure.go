package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"steerpoint/tools/machine"
)

// server is a peer that runs.
type server struct {
	peer
	port    int
	dir     string
	session *machine.Session
	// resident is the memory of its processes in octets, as last seen.
	resident int64
	failed   bool // it is not asked any more
}

// run starts the server in a session of its own, on the first core, and waits for its answers.
func (s *server) run(ctx context.Context, work string, p phase) error {
	args, err := s.prepare(s.dir, work, s.port, p.names)
	if err != nil {
		return err
	}
	log := filepath.Join(s.dir, "log")
	if s.session, err = machine.Start(0, args, s.env, log); err != nil {
		return err
	}
	var apply []string
	if s.ours && !s.byItself {
		apply = []string{args[0], "apply", "--data", filepath.Join(s.dir, "data"), "-f", filepath.Join(s.dir, "site.yaml")}
	}
	return s.session.Ready(ctx, startWait, apply, func() error {
		err := s.check(ctx, p)
		if err == nil && s.byItself {
			err = s.firstMap(ctx, log)
		}
		return err
	})
}

// firstMap has a name server by itself take the first map after its start from disk, which is made anew as a whole, and waits
// for it: that comes once in its life, and not each second.
func (s *server) firstMap(ctx context.Context, log string) error {
	if err := s.signal(ctx, 0); err != nil {
		return err
	}
	for end := time.Now().Add(startWait); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		if text, err := os.ReadFile(log); err != nil || bytes.Contains(text, []byte("in place in")) {
			return err
		}
	}
	return errors.New("the first map is not in place")
}

// check asks for one answer of each workload.
func (s *server) check(ctx context.Context, p phase) error {
	for _, w := range p.workloads {
		if !s.takes(w) {
			continue
		}
		if err := s.looks(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// takes reports whether a workload is for a server.
func (s *server) takes(w workload) bool {
	return (!w.geo || s.geo) && (!w.swap || s.ours)
}

func (s *server) looks(ctx context.Context, w workload) error {
	args := []string{"-p", strconv.Itoa(s.port), "@127.0.0.1", w.ask(17), "A", "+time=2", "+tries=1", "+noall", "+comments", "+answer"}
	if w.geo {
		args = append(args, "+subnet="+subnet)
	}
	if w.signed {
		args = append(args, "+dnssec")
	}
	out, err := exec.CommandContext(ctx, "dig", args...).Output()
	if err != nil {
		return fmt.Errorf("dig %s: %w", w.ask(17), err)
	}
	if !strings.Contains(string(out), w.want) {
		return fmt.Errorf("%s is not answered with %s:\n%s", w.ask(17), w.want, out)
	}
	if w.signed && !strings.Contains(string(out), "RRSIG") {
		return fmt.Errorf("%s is answered without a signature:\n%s", w.ask(17), out)
	}
	return nil
}

var (
	completed = regexp.MustCompile(`Queries completed:\s+(\d+)`)
	sent      = regexp.MustCompile(`Queries sent:\s+(\d+)`)
	lostCount = regexp.MustCompile(`Queries lost:\s+(\d+)`)
	perSecond = regexp.MustCompile(`Queries per second:\s+([\d.]+)`)
	octets    = regexp.MustCompile(`Average packet size:\s+request \d+, response (\d+)`)
)

// measure asks for some seconds, 200 questions under way on 8 sockets, and looks at answers before, meanwhile and after.
func (s *server) measure(ctx context.Context, seconds int, w workload, work string, names int) (sample, error) {
	if err := s.looks(ctx, w); err != nil {
		return sample{}, err
	}
	during, stop := context.WithCancel(ctx)
	defer stop()
	type outcome struct {
		looked
		maps int
		err  error
	}
	watched, swapped := make(chan outcome, 1), make(chan outcome, 1)
	go func() { l, err := s.watch(during, w, names); watched <- outcome{looked: l, err: err} }()
	go func() {
		var o outcome
		if w.swap {
			o.maps, o.err = s.swap(during)
		}
		swapped <- o
	}()
	got, err := s.ask(ctx, seconds, w, work)
	stop()
	l, m := <-watched, <-swapped
	if err := errors.Join(err, l.err, m.err); err != nil {
		return got, err
	}
	got.looks, got.maps = l.right, m.maps
	switch {
	case len(l.wrong) > 0:
		return got, fmt.Errorf("%d of %d answers are wrong: %s", len(l.wrong), len(l.wrong)+l.right, l.wrong[0])
	case l.right == 0:
		return got, fmt.Errorf("no answer was looked at, %d questions were not answered", l.unanswered)
	}
	return got, s.looks(ctx, w)
}

// ask has dnsperf ask.
func (s *server) ask(ctx context.Context, seconds int, w workload, work string) (sample, error) {
	before, err := s.cpu()
	if err != nil {
		return sample{}, err
	}
	args := append([]string{
		"-c", "1", "dnsperf", "-s", "127.0.0.1", "-p", strconv.Itoa(s.port), "-d", filepath.Join(work, w.file),
		"-l", strconv.Itoa(seconds), "-c", "8", "-T", "1", "-q", "200", "-b", "4096", "-t", "1",
	}, w.flags...)
	out, err := exec.CommandContext(ctx, "taskset", args...).Output()
	if err != nil {
		return sample{}, fmt.Errorf("dnsperf: %w", err)
	}
	after, err := s.cpu()
	if err != nil {
		return sample{}, err
	}
	got := sample{server: s.name, workload: w.name}
	var values [5]float64
	for i, re := range []*regexp.Regexp{completed, sent, lostCount, perSecond, octets} {
		m := re.FindSubmatch(out)
		if m == nil {
			return got, fmt.Errorf("dnsperf said nothing of %s:\n%s", re, out)
		}
		if values[i], err = strconv.ParseFloat(string(m[1]), 64); err != nil {
			return got, err
		}
	}
	if values[0] == 0 {
		return got, errors.New("nothing was answered")
	}
	got.cpu, got.lost, got.qps = (after-before).Seconds()/values[0]*1e6, values[2]/values[1], values[3]
	got.octets = values[4]
	return got, nil
}

// cpu is the processor time of every process of the server's session; it notes their memory, too.
func (s *server) cpu() (time.Duration, error) {
	cpu, resident, err := s.session.Used()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	s.resident = resident
	return cpu, nil
}

// stop ends the server's processes; a process that stays is killed.
func (s *server) stop() { s.session.Stop() }
