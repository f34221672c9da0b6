package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// BackupOptions say what goes into a backup besides what always does.
type BackupOptions struct {
	Authority bool // the authority of the cluster with its key: who has it can make nodes
	Tape      bool
	NoHistory bool // leave history.db out
}

// Backup writes a backup of the server's state to w, as it is at one moment.
func (c *Client) Backup(ctx context.Context, o BackupOptions, w io.Writer) error {
	q := url.Values{}
	for name, on := range map[string]bool{"authority": o.Authority, "tape": o.Tape} {
		if on {
			q.Set(name, "true")
		}
	}
	if o.NoHistory {
		q.Set("history", "false")
	}
	req, err := c.newRequest(ctx, http.MethodGet, "/backup", q, nil)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return unreachable(c.base, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return problemOf(res, res.Body)
	}
	if _, err := io.Copy(w, res.Body); err != nil {
		return fmt.Errorf("backup: it was cut off: %w", err)
	}
	return nil
}
