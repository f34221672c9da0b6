package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"steerpoint/control/api"
	"steerpoint/control/backup"
	"steerpoint/control/internal/store"
	"steerpoint/internal/folder"
)

// backup takes a backup over the API into a file.
func (r *rig) backup(o api.BackupParams) (path string, m backup.Manifest) {
	r.t.Helper()
	var b bytes.Buffer
	if err := r.client.Backup(r.t.Context(), o, &b); err != nil {
		r.t.Fatalf("backup: %v", err)
	}
	m, err := backup.Verify(bytes.NewReader(b.Bytes()))
	if err != nil {
		r.t.Fatalf("backup: %v", err)
	}
	path = filepath.Join(r.t.TempDir(), "backup")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return path, m
}

func restoring(file, data string) Restoring {
	return Restoring{File: file, Data: data, Log: slog.New(slog.DiscardHandler)}
}

func restored(t *testing.T, file, data string) Restored {
	t.Helper()
	out, err := Restore(t.Context(), restoring(file, data))
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	return out
}

// lived is a control with a past: a switch, a force, a token for a node and one of the API.
func lived(t *testing.T, dir string) (r *rig, token string) {
	t.Helper()
	r = start(t, dir, nil)
	r.apply(zoneYAML, shopYAML)
	r.awaitAnswer("shop", "default", "192.0.2.1")
	r.all()
	r.down("192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	r.awaitAnswer("shop", "default", "192.0.2.2")
	ctx := t.Context()
	if _, err := r.client.Drain(ctx, api.DrainRequest{Edge: "shop/south", Reason: "works"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.CreateToken(ctx, api.TokenRequest{Roles: []string{"dns"}}); err != nil {
		t.Fatal(err)
	}
	r.await("the switch is published", func() bool { l := r.switches(); return len(l) > 0 && l[0].Publication != nil })
	return r, r.apiToken("ci", "operator", "")
}

// TestRestoreGoesOn proves that a control restored on an empty machine is the one of the backup: the same answers,
// verdicts, revisions, history and tokens; sequence numbers of decisions go on, versions of maps do not come again; what
// was written after the backup is not there, and the admin token is another.
// Covers: B8, issue4 backup
func TestRestoreGoesOn(t *testing.T) {
	t.Parallel()
	r, token := lived(t, t.TempDir())
	ctx := t.Context()
	shop, err := r.client.Get(ctx, "Service", "shop")
	if err != nil {
		t.Fatal(err)
	}
	before, switches := r.rule("shop", "default"), r.switches()
	left := filepath.Join(r.dir, "history.db.backup") // as a process that was killed in a backup leaves it
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, m := r.backup(api.BackupParams{Authority: true, Tape: true})
	r.await("nothing is left of the copy", func() bool { _, err := os.Stat(left); return os.IsNotExist(err) })
	if !slices.ContainsFunc(m.Members, func(x backup.Member) bool { return x.Name == backup.History }) || !m.AuthorityKey || m.Keys == 0 {
		t.Errorf("manifest %+v", m)
	}
	if !slices.ContainsFunc(m.Members, func(x backup.Member) bool { return backup.InTape(x.Name) }) {
		t.Errorf("no tape in it: %+v", m.Members)
	}
	r.apply(strings.ReplaceAll(shopYAML, "shop", "late"))
	old, _, _ := r.out.latest()
	authority := r.Authority().Hash()
	r.stop()

	dir := filepath.Join(t.TempDir(), "new")
	out := restored(t, file, dir)
	r.clocks.pass(time.Second)
	again := start(t, dir, r.clocks)
	again.awaitAnswer("shop", "default", "192.0.2.2")
	sameRule(t, "restored", before, again.rule("shop", "default"), true)
	d, _, _ := again.out.latest()
	if d.Version <= old.Version || d.Version < out.MapVersion {
		t.Errorf("map version %d after %d, promised from %d", d.Version, old.Version, out.MapVersion)
	}
	if diff := cmp.Diff(switches, again.switches()); diff != "" {
		t.Errorf("the switch log differs:\n%s", diff)
	}
	if got, err := again.client.Get(ctx, "Service", "shop"); err != nil || got.Revision != shop.Revision || !bytes.Equal(got.Document, shop.Document) {
		t.Errorf("shop has revision %d, had %d: %v", got.Revision, shop.Revision, err)
	}
	if _, err := again.client.Get(ctx, "Service", "late"); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("what came after the backup is there: %v", err)
	}
	h, err := again.client.History(ctx, "Service", "shop", api.HistoryParams{})
	if err != nil || len(h.Revisions) != 1 || h.Revisions[0].Revision != shop.Revision {
		t.Errorf("history %+v, %v", h, err)
	}
	if again.Authority().Hash() != authority || again.Token() == r.Token() {
		t.Error("the authority is another, or the admin token the same")
	}
	if v, err := api.NewClient("http://"+again.Addr().String(), token).Version(ctx); err != nil || v.Actor != "ci" {
		t.Errorf("API token: %+v, %v", v, err)
	}
	if list, err := again.client.AllTokens(ctx); err != nil || len(list) != 1 {
		t.Errorf("join tokens: %+v, %v", list, err)
	}
	if !slices.Equal(out.GoodAgain.APITokens, []string{"ci"}) {
		t.Errorf("good again are %+v, want the API token ci", out.GoodAgain)
	}
	if p := again.apply(slower(shopYAML)); p.Revision <= m.Revision+minSkipRevisions {
		t.Errorf("revision %d after %d: one of them may have been given since the backup", p.Revision, m.Revision)
	}
	again.down("192.0.2.2", "192.0.2.1")
	again.await("a switch", func() bool { return len(again.switches()) > len(switches) })
	if s := again.switches()[0]; s.Sequence != before.Sequence+1 {
		t.Errorf("sequence %d after %d", s.Sequence, before.Sequence)
	}
}

// TestRestoreWithoutAuthority proves that a backup does not hold the key of the authority unasked, nor any token, and that
// the restored control begins a new authority.
// Covers: issue4 backup, issue4 secrets
func TestRestoreWithoutAuthority(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, token := lived(t, dir)
	view, err := r.store.Resources(t.Context())
	if err == nil {
		_, err = r.store.WriteResources(t.Context(), view.Generation, []store.Write{{Kind: "Secret", Name: "hook", Document: []byte(`{"sealed":"x"}`)}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	file, m := r.backup(api.BackupParams{NoHistory: true})
	if !slices.Equal(m.Secrets, []string{"hook"}) {
		t.Errorf("what needs the sealing key: %v", m.Secrets)
	}
	key, err := os.ReadFile(filepath.Join(dir, "ca", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = backup.Read(f, func(x backup.Member, content io.Reader) error {
		b, err := io.ReadAll(content)
		for name, secret := range map[string]string{"ca.key": string(key), "admin.token": r.Token(), "API token": strings.Split(token, ".")[2]} {
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s holds %s", x.Name, name)
			}
		}
		if strings.HasPrefix(x.Name, "ca/") || x.Name == backup.History {
			t.Errorf("%s is in it", x.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"seal.key", "admin.token", "series/", "ca/", backup.History} {
		if !slices.ContainsFunc(m.LeftOut, func(l backup.LeftOut) bool { return l.What == want && l.Why != "" }) {
			t.Errorf("the manifest does not say why there is no %s: %+v", want, m.LeftOut)
		}
	}
	r.stop()
	to := t.TempDir()
	restored(t, file, to)
	again := start(t, to, r.clocks)
	again.awaitAnswer("shop", "default", "192.0.2.2")
	if again.Authority().Hash() == m.Authority {
		t.Error("the authority came from nowhere")
	}
	if n := len(again.switches()); n != 1 {
		t.Errorf("%d switches, want the one the store holds", n)
	}
}

// TestBackupWhileWriting proves that a backup taken while resources are applied without a pause is of one moment: two
// services that are always written together have the same content in it.
// Covers: issue4 backup
func TestBackupWhileWriting(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML, shopYAML, blogYAML())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			mark := fmt.Sprintf("labels: {n: \"%d\"}\ndomains:", n)
			if _, err := r.client.Apply(t.Context(), request(strings.Replace(shopYAML, "domains:", mark, 1), strings.Replace(blogYAML(), "domains:", mark, 1))); err != nil {
				t.Errorf("apply: %v", err)
				break
			}
		}
		ended <- n
	}()
	var files []string
	for range 2 {
		file, _ := r.backup(api.BackupParams{})
		files = append(files, file)
	}
	cancel()
	writes := <-ended
	r.stop()
	for _, file := range files {
		to := t.TempDir()
		restored(t, file, to)
		again := start(t, to, r.clocks)
		label := func(name string) string {
			got, err := again.client.Get(t.Context(), "Service", name)
			if err != nil {
				t.Fatal(err)
			}
			_, after, _ := strings.Cut(string(got.Document), `"labels":`)
			return after[:min(len(after), 20)]
		}
		if a, b := label("shop"), label("blog"); a != b {
			t.Errorf("of %d writes the backup has shop %s and blog %s", writes, a, b)
		}
		again.stop()
	}
}

// TestBackupWithoutRoomForHistory proves that a history which cannot be copied is refused before anything is sent, with the
// way to a backup without it; and that this way works.
// Covers: issue4 backup, issue4 disk full
func TestBackupWithoutRoomForHistory(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir(), nil)
	r.apply(zoneYAML)
	// In the place of a full disk: where the copy is to be is a folder that cannot be removed.
	if err := os.MkdirAll(filepath.Join(r.dir, "history.db.backup", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := wantCode(t, "backup", r.client.Backup(t.Context(), api.BackupParams{}, io.Discard), 503, api.CodeNoHistory)
	if !strings.Contains(p.Detail, "--without-history") {
		t.Errorf("it does not say what works: %s", p.Detail)
	}
	r.backup(api.BackupParams{NoHistory: true})
}

// TestRestoreRefuses proves that what is no whole backup of this version is refused by its own error, that a folder with
// something in it is not touched, and that nothing is left behind.
// Covers: issue4 backup
func TestRestoreRefuses(t *testing.T) {
	r, _ := lived(t, t.TempDir())
	file, _ := r.backup(api.BackupParams{})
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, content []byte, want error) {
		t.Helper()
		path, to := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "to")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(t.Context(), restoring(path, to)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		if _, err := os.Stat(to); !os.IsNotExist(err) {
			t.Errorf("%s: something is left: %v", what, err)
		}
	}
	damaged := 0
	for i := range 25 {
		at := len(whole) * i / 25
		refused(fmt.Sprintf("cut off at %d", at), whole[:at], backup.ErrDamaged)
		b := slices.Clone(whole)
		b[at] ^= 0x10
		// Some bits say nothing: in the header of gzip, and between two of its blocks.
		if _, err := backup.Verify(bytes.NewReader(b)); at > 0 && err != nil {
			damaged++
			refused(fmt.Sprintf("changed at %d", at), b, backup.ErrDamaged)
		}
	}
	if damaged < 20 {
		t.Errorf("of 24 changes %d are damage", damaged)
	}
	refused("something after it", append(slices.Clone(whole), 'x'), backup.ErrDamaged)
	refused("the same again", append(slices.Clone(whole), whole...), backup.ErrDamaged)
	refused("text", []byte("this is no backup\n"), backup.ErrDamaged)

	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "letter"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), restoring(file, used)); !errors.Is(err, folder.ErrNotEmpty) {
		t.Errorf("a folder in use: %v", err)
	}
	if _, err := Restore(t.Context(), restoring(file, r.dir)); !errors.Is(err, folder.ErrNotEmpty) && !errors.Is(err, folder.ErrLocked) {
		t.Errorf("the folder of a running control: %v", err)
	}
	if left, err := os.ReadDir(used); err != nil || len(left) != 1 {
		t.Errorf("it holds %v now: %v", left, err)
	}
}

// failing takes so many bytes and then no more.
type failing struct {
	w    io.Writer
	left int
}

// Write implements io.Writer.
func (f *failing) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, syscall.ENOSPC
	}
	return f.w.Write(b)
}

// TestRestoreFails proves that a write that fails, early, late or in the store, leaves the folder as it was found: absent,
// or empty with its own rights; and that the restore works when there is room.
// Covers: issue4 backup, issue4 disk full
func TestRestoreFails(t *testing.T) {
	r, _ := lived(t, t.TempDir())
	file, m := r.backup(api.BackupParams{Authority: true})
	r.stop()
	size := 0
	for _, x := range m.Members {
		if !backup.InStore(x.Name) {
			size += int(x.Size)
		}
	}
	for _, left := range []int{0, 100, size / 2, size - 1} {
		for _, made := range []bool{false, true} {
			to := filepath.Join(t.TempDir(), "to")
			if made {
				if err := os.Mkdir(to, 0o750); err != nil {
					t.Fatal(err)
				}
			}
			q := restoring(file, to)
			budget := &failing{left: left}
			q.write = func(w io.Writer) io.Writer { budget.w = w; return budget }
			if _, err := Restore(t.Context(), q); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("with room for %d bytes: %v", left, err)
			}
			list, err := os.ReadDir(to)
			if made && (err != nil || len(list) != 0) || !made && !os.IsNotExist(err) {
				t.Errorf("with room for %d bytes: %v is left, %v", left, list, err)
			}
			if left == size-1 {
				restored(t, file, to)
			}
		}
	}
}

// TestRestoreOnAFullDisk proves the same with a disk that is full, for the files, and for the store behind them.
// Covers: issue4 backup, issue4 disk full
func TestRestoreOnAFullDisk(t *testing.T) {
	r, _ := lived(t, t.TempDir())
	file, _ := r.backup(api.BackupParams{})
	r.stop()
	for _, size := range []string{"40k", "400k", "8m"} {
		disk := t.TempDir()
		if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size="+size); err != nil {
			t.Skipf("no small disk can be made here (mount: %v); TestRestoreFails injects the error instead", err)
		}
		to := filepath.Join(disk, "to")
		_, err := Restore(t.Context(), restoring(file, to))
		if err == nil {
			t.Errorf("%s: restored", size)
		}
		if _, statErr := os.Stat(to); !os.IsNotExist(statErr) {
			t.Errorf("%s: something is left: %v (%v)", size, statErr, err)
		}
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
}

// childBackup names the backup that a copy of this test binary restores, to be killed in it.
const childBackup = "STEER_CONTROL_BACKUP"

// stuck says when a number of bytes was written, and writes no more.
type stuck struct {
	w    io.Writer
	left *int
}

// Write implements io.Writer.
func (s stuck) Write(b []byte) (int, error) {
	if *s.left -= len(b); *s.left < 0 {
		fmt.Println("stuck")
		select {}
	}
	return s.w.Write(b)
}

// childRestores restores, slowly enough to be killed.
func childRestores(ctx context.Context, file, dir string) error {
	var left int
	if _, err := fmt.Sscan(os.Getenv("STEER_CONTROL_STUCK"), &left); err != nil {
		return err
	}
	q := restoring(file, dir)
	q.write = func(w io.Writer) io.Writer { return stuck{w, &left} }
	_, err := Restore(ctx, q)
	return err
}

// TestRestoreKilled proves that a folder whose restore was killed is refused by control by its own error, and that the next
// restore takes it.
// Covers: issue4 backup, issue4 kill9
func TestRestoreKilled(t *testing.T) {
	t.Parallel()
	r, _ := lived(t, t.TempDir())
	file, _ := r.backup(api.BackupParams{Authority: true})
	r.stop()
	for _, left := range []int{10, 30_000} {
		to := filepath.Join(t.TempDir(), "to")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childFolder+"="+to, childBackup+"="+file, fmt.Sprintf("STEER_CONTROL_STUCK=%d", left))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "stuck\n" {
			t.Fatalf("the child says %q, %v", line, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		_, err = New(t.Context(), Config{Data: to, Listen: "127.0.0.1:0"}, Deps{Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, folder.ErrUnfinished) || !strings.Contains(err.Error(), to) {
			t.Errorf("half restored, control says %v", err)
		}
		restored(t, file, to)
		again := start(t, to, r.clocks)
		again.awaitAnswer("shop", "default", "192.0.2.2")
		again.stop()
	}
}

// TestRestoreKeepsTheOwner proves that root restores for the user that the folder belongs to.
// Covers: issue4 backup
func TestRestoreKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const nobody = 65534
	r, _ := lived(t, t.TempDir())
	file, _ := r.backup(api.BackupParams{Authority: true})
	to := t.TempDir()
	if err := os.Chown(to, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	restored(t, file, to)
	files := 0
	err := filepath.WalkDir(to, func(path string, _ os.DirEntry, err error) error {
		var s unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &s)
		}
		if s.Uid != nobody || s.Gid != nobody {
			t.Errorf("%s is of %d", path, s.Uid)
		}
		files++
		return err
	})
	if err != nil || files < 8 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestRestoreIntoAPackagesFolder proves that a folder as the Debian package makes it, with a link to settings under /etc, is
// filled, also when it is named by a link: the settings there stay, those of the backup come beside them, and root gives
// everything to the folder's owner.
// Covers: issue4 backup
func TestRestoreIntoAPackagesFolder(t *testing.T) {
	r, _ := lived(t, t.TempDir())
	if err := os.WriteFile(filepath.Join(r.dir, backup.Settings), []byte("of the backup"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, _ := r.backup(api.BackupParams{NoHistory: true})
	to, etc := t.TempDir(), filepath.Join(t.TempDir(), "control.yaml")
	named := filepath.Join(t.TempDir(), "named")
	err := errors.Join(os.WriteFile(etc, []byte("of the package"), 0o600), os.Symlink(etc, filepath.Join(to, backup.Settings)), os.Symlink(to, named))
	const nobody = 65534
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(to, nobody, nobody)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := restored(t, file, named)
	for path, want := range map[string]string{filepath.Join(to, backup.Settings): "of the package", out.Settings: "of the backup"} {
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s holds %q, want %q: %v", path, b, want, err)
		}
	}
	if l, err := os.Readlink(filepath.Join(to, backup.Settings)); err != nil || l != etc {
		t.Errorf("the link leads to %q: %v", l, err)
	}
	var s unix.Stat_t
	if err := unix.Lstat(filepath.Join(to, "etcd"), &s); err != nil || os.Geteuid() == 0 && s.Uid != nobody {
		t.Errorf("the store is of %d: %v", s.Uid, err)
	}
}

// TestGoodAgain proves that of the tokens and nodes in a backup those are named that are let in by it, and no others: what
// is over or was revoked before is not, and without the authority no node is.
// Covers: issue4 backup
func TestGoodAgain(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var with, without GoodAgain
	for key, v := range map[string]any{
		"api-tokens/1": store.APIToken{ID: "1", Name: "ci"},
		"api-tokens/2": store.APIToken{ID: "2", Name: "over", Expires: now},
		"tokens/3":     store.Token{ID: "3", Name: "ns3", Expires: now.Add(time.Hour)},
		"tokens/4":     store.Token{ID: "4", Expires: now},
		"tokens/5":     store.Token{ID: "5", Expires: now.Add(time.Hour), Used: now.Add(-time.Hour)},
		"nodes/ns2":    store.Node{Name: "ns2"},
		"nodes/ns1":    store.Node{Name: "ns1", Revoked: now.Add(-time.Hour)},
		"resources/x":  store.Node{Name: "x"},
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		p := &store.Pair{Key: store.Root + key, Value: b}
		with.note(p, true, now)
		without.note(p, false, now)
	}
	if diff := cmp.Diff(GoodAgain{APITokens: []string{"ci"}, JoinTokens: []string{"3"}, Nodes: []string{"ns2"}}, with); diff != "" {
		t.Errorf("with the authority:\n%s", diff)
	}
	if diff := cmp.Diff(GoodAgain{APITokens: []string{"ci"}}, without); diff != "" {
		t.Errorf("without it:\n%s", diff)
	}
}

// TestSkippedVersions proves that versions and revisions which the lost control may have given are left out, more the older
// the backup; that two restores at one moment differ, and a later one is above; and that the serial of a zone still goes
// forward as serials are compared (RFC 1982).
// Covers: issue4 backup
func TestSkippedVersions(t *testing.T) {
	for _, age := range []time.Duration{-time.Hour, 0, time.Second, time.Hour, 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		n := skipVersions(age)
		if n < versionBlock || n >= 1<<31 || age < 0 && n < maxSkipVersions || age <= 20*24*time.Hour && n < uint64(max(age, 0)/coalesce) {
			t.Errorf("after %v %d versions are left out", age, n)
		}
		if n := skipRevisions(age); n < minSkipRevisions+int64(age/time.Second)*revisionsASecond || n > 1<<40 {
			t.Errorf("after %v %d revisions are left out", age, n)
		}
		versions, revisions := map[uint64]bool{}, map[int64]bool{}
		for range 10 {
			versions[skipVersions(age)], revisions[skipRevisions(age)] = true, true
		}
		if len(versions) == 1 || len(revisions) == 1 {
			t.Errorf("after %v ten restores leave out the same: %v, %v", age, versions, revisions)
		}
		later := age + 2*spread*time.Second
		if age >= 0 && age <= 20*24*time.Hour && (skipVersions(later) <= n || skipRevisions(later) <= skipRevisions(age)) {
			t.Errorf("a restore at %v may be below one at %v", later, age)
		}
	}
}
