package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"steerpoint/control/backup"
	"steerpoint/control/internal/store"
)

// backupWrite is how long a client may take to read the next piece of a backup: one that is slower holds the copy of the
// history on the disk, and others up.
const backupWrite = 60 * time.Second

type backupInput struct {
	Who
	Authority bool `query:"authority" doc:"with the authority of the cluster and its key: who has it can make nodes"`
	Tape      bool `query:"tape" doc:"with what rules were told, for replays and explanations of the past"`
	NoHistory bool `query:"noHistory" doc:"without history.db"`
}

// backupRoute serves backups.
func (c *Control) backupRoute(a huma.API) {
	op := operation(http.MethodGet, "/backup", "backup", "Everything that a new machine needs to go on, as one file", 0)
	op.Responses = map[string]*huma.Response{"200": {
		Description: "A tar in gzip; it is whole only with its manifest, the last member",
		Content:     map[string]*huma.MediaType{"application/gzip": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
	}}
	huma.Register(a, op, func(ctx context.Context, in *backupInput) (*huma.StreamResponse, error) {
		if err := c.backups.enter(ctx); err != nil {
			return nil, asProblem(err)
		}
		history, err := c.beginBackup(ctx, in)
		if err != nil {
			c.backups.leave()
			return nil, asProblem(err)
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			defer c.backups.leave()
			defer c.sweepBackup()
			r, w := humago.Unwrap(hc)
			hc.SetHeader("Content-Type", "application/gzip")
			out := &patient{w: w, rc: http.NewResponseController(w)}
			if err := c.writeBackup(r.Context(), out, in, history); err != nil {
				c.log.Error("backup broken off", "actor", in.actor(), "error", err)
				panic(http.ErrAbortHandler) // the client must not take the end for the end of the file
			}
			c.log.Info("backup made", "actor", in.actor(), "authority", in.Authority, "bytes", out.n)
		}}, nil
	})
}

// patient writes to a client that reads, however long all of it takes.
type patient struct {
	w  io.Writer
	rc *http.ResponseController
	n  int64
}

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	now := time.Now()
	if err := errors.Join(p.rc.SetWriteDeadline(now.Add(backupWrite)), p.rc.SetReadDeadline(time.Time{})); err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	n, err := p.w.Write(b)
	p.n += int64(n)
	return n, err
}

func (c *Control) historyCopy() string { return filepath.Join(c.cfg.Data, "history.db.backup") }

// sweepBackup removes the copy of the history that a backup was made from; a process killed in it leaves one behind.
func (c *Control) sweepBackup() {
	for _, suffix := range []string{"", "-journal"} {
		if err := os.Remove(c.historyCopy() + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.log.Warn("the copy of the history that a backup made is left behind", "error", err)
		}
	}
}

// beginBackup does what may fail before anything is sent: it notes who takes the backup, and copies the history. It
// returns the path of the copy, or "".
func (c *Control) beginBackup(ctx context.Context, in *backupInput) (history string, err error) {
	what := "backup"
	if in.Authority {
		what = "backup with the key of the authority"
	}
	if err := c.store.WriteAudit(ctx, store.Audit{Time: c.wallNow(), Actor: in.actor(), Action: what, Kind: "Control", Name: c.cfg.Node}); err != nil {
		return "", err
	}
	if err := c.saveState(ctx); err != nil {
		c.log.Warn("core state not saved before a backup: an older one goes into it", "error", err)
	}
	if in.NoHistory {
		return "", nil
	}
	c.sweepBackup()
	c.awaitHistory(ctx)
	if err := c.history.file.CopyTo(ctx, c.historyCopy()); err != nil {
		c.sweepBackup()
		return "", fmt.Errorf("%w: it cannot be copied for the backup, for which it needs as much room on the disk again: %w; a backup without it is one with --without-history",
			errHistory, err)
	}
	return c.historyCopy(), nil
}

// writeBackup writes a backup to w. The history was copied before, so whatever it lacks is in the store.
func (c *Control) writeBackup(ctx context.Context, w io.Writer, in *backupInput, history string) error {
	sum := sha256.Sum256([]byte(c.token))
	m := &backup.Manifest{
		Header:    backup.Header{Program: c.cfg.Version, Cluster: c.cfg.Cluster, Node: c.cfg.Node, Created: c.wallNow()},
		Authority: c.authority.Hash(), AuthorityKey: in.Authority, AdminToken: hex.EncodeToString(sum[:]),
		Secrets: []string{}, Nodes: []string{}, Geo: c.geoHashes(), LeftOut: leftOut(in),
	}
	b, err := backup.NewWriter(w, m)
	if err != nil {
		return err
	}
	files := [][2]string{ // a file that is not there was never made: there is no name server here, or nothing is set
		{backup.CoreState, c.saver.path}, {backup.Map, filepath.Join(c.cfg.Data, backup.Map)}, {backup.Settings, filepath.Join(c.cfg.Data, backup.Settings)},
	}
	if in.Authority {
		files = append(files, [2]string{backup.CACert, filepath.Join(c.cfg.Data, backup.CACert)}, [2]string{backup.CAKey, filepath.Join(c.cfg.Data, backup.CAKey)})
	}
	if history != "" {
		if err := addFile(b, backup.History, history); err != nil {
			return err
		}
	}
	for _, f := range files {
		if err := addFile(b, f[0], f[1]); err != nil && (!errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(f[0], "ca/")) {
			return err
		}
	}
	if err := c.addStore(ctx, b, m); err != nil {
		return err
	}
	if in.Tape {
		if err := c.addTape(ctx, b); err != nil {
			return err
		}
	}
	return b.Close()
}

// leftOut says what is not in a backup, and why.
func leftOut(in *backupInput) []backup.LeftOut {
	out := []backup.LeftOut{
		{What: "seal.key", Why: "it opens the Secrets, the zone keys and what name servers share in the store, so it is to be kept apart: copy it, or the file that seal.keyFile in steer.yaml names, to another place once"},
		{What: "admin.token", Why: "a new one is made at the first start after a restore"},
		{What: "zone.key", Why: "a new one is made at the first start, and zone keys are sealed to it"},
		{What: "series/", Why: "availability and latency over time begin anew after a restore"},
		{What: "notify/", Why: "what notifiers had not told is not told after a restore"},
	}
	if !in.Authority {
		out = append(out, backup.LeftOut{What: "ca/", Why: "it is added by --with-authority; without it every node has to join anew"})
	}
	if !in.Tape {
		out = append(out, backup.LeftOut{What: "tape/", Why: "it is added by --with-tape; without it the past cannot be replayed"})
	}
	if in.NoHistory {
		out = append(out, backup.LeftOut{What: backup.History, Why: "it was left out; the store has the last hour of it"})
	}
	return out
}

// addFile adds a file as long as it is now: what is appended meanwhile is not of this backup.
func addFile(b *backup.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return b.Add(name, info.Size(), f)
}

// addStore adds every key, as all of them are at one revision.
func (c *Control) addStore(ctx context.Context, b *backup.Writer, m *backup.Manifest) error {
	var err error
	m.Revision, err = c.store.Dump(ctx, func(p store.Pair) error {
		if kind, name, ok := p.ResourceName(); ok && kind == "Secret" {
			m.Secrets = append(m.Secrets, name)
		}
		if name, ok := p.NodeName(); ok {
			m.Nodes = append(m.Nodes, name)
		}
		if v, ok := p.MapVersion(); ok {
			m.NextMapVersion = v
		}
		return b.AddPair(backup.Pair{Key: p.Key, Created: p.Created, Written: p.Written, Version: p.Version}, p.Value)
	})
	if err != nil {
		return err
	}
	return b.EndStore()
}

// addTape adds the segments of the tape as they are now. One that is dropped meanwhile was too old; one that is
// compressed meanwhile comes under its new name, in the second round.
func (c *Control) addTape(ctx context.Context, b *backup.Writer) error {
	if c.tape != nil {
		if err := c.tape.Flush(ctx); err != nil {
			c.log.Warn("the newest of the tape may be missing in a backup", "error", err)
		}
	}
	added := map[string]bool{} // names without their endings
	for range 2 {
		entries, err := os.ReadDir(c.tapeDir())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("backup: %w", err)
		}
		for _, e := range entries {
			base, _, isTape := strings.Cut(e.Name(), ".tape")
			if !isTape || added[base] || !slices.Contains([]string{base + ".tape", base + ".tape.gz"}, e.Name()) {
				continue
			}
			err := addFile(b, "tape/"+e.Name(), filepath.Join(c.tapeDir(), e.Name()))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			added[base] = err == nil
		}
	}
	return nil
}

// geoHashes names the geo data files in use. They are too large for a backup, and can be fetched.
func (c *Control) geoHashes() []backup.GeoFile {
	out := []backup.GeoFile{}
	if c.deps.GeoFiles == nil {
		return out
	}
	for _, path := range c.deps.GeoFiles() {
		g := backup.GeoFile{Path: path}
		if sum, err := hashFile(path); err != nil {
			g.Error = err.Error()
		} else {
			g.SHA256 = sum
		}
		out = append(out, g)
	}
	return out
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
