package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// swap moves a service to and fro, each second once, so that the server gets a new map each second as it does when an edge
// fails. It says how often it did.
func (s *server) swap(ctx context.Context) (n int, err error) {
	next := s.signal
	if !s.byItself {
		token, err := os.ReadFile(filepath.Join(s.dir, "data", "admin.token"))
		if err != nil {
			return 0, err
		}
		next = func(ctx context.Context, n int) error {
			return s.force(ctx, strings.TrimSpace(string(token)), [...]string{"a", "b"}[n%2])
		}
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := next(ctx, n); err != nil {
			if ctx.Err() != nil {
				return n, nil
			}
			return n, err
		}
		n++
		select {
		case <-ctx.Done():
			return n, nil
		case <-tick.C:
		}
	}
}

// signal has a name server by itself take the next map.
func (s *server) signal(context.Context, int) error {
	return syscall.Kill(s.session.PID(), syscall.SIGUSR1)
}

func (s *server) force(ctx context.Context, token, edge string) error {
	body := fmt.Sprintf(`{"rule":"flip/all","edge":%q,"for":"1h","reason":"measurement"}`, edge)
	url := fmt.Sprintf("http://127.0.0.1:%d/api/v1/force", s.port+1000)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("force: %s: %s", res.Status, text)
	}
	return err
}
