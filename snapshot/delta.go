package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"steerpoint/geo"
)

var (
	// ErrGap is matched by the error of Apply for a delta that does not continue the snapshot at hand: the whole
	// snapshot must be fetched. Its text begins with MAP_GAP.
	ErrGap = errors.New("gap")
	// ErrDigest is matched by the error of Apply when what came out is not what the delta was made for: the base was
	// another one, or one of the two is damaged. The whole snapshot must be fetched. Its text begins with MAP_DIGEST.
	ErrDigest = errors.New("digest differs")
)

// DNSDelta leads from one DNS snapshot to a later one. It is made by DiffDNS and used by Apply; in between it may
// travel as JSON. It holds what differs: a delta between equal maps is a few hundred octets.
type DNSDelta struct {
	From    uint64        `json:"from"` // version of the snapshot it is applied to; 0: none
	To      uint64        `json:"to"`
	Created time.Time     `json:"created"`
	At      time.Duration `json:"at,omitempty"`
	// Digest is DNS.Digest of the result.
	Digest string `json:"digest"`
	// Whole is the result itself, where a delta cannot lead to it: there was no snapshot before, or its lists are not
	// in order. All below is empty then.
	Whole *DNS `json:"whole,omitempty"`
	// Zones are all zones, if any changed.
	Zones *[]DNSZone `json:"zones,omitempty"`
	// Tables are those indices that changed. Kept is how many of the old ones remain, the rest is cut off.
	Tables []DNSTable `json:"tables,omitempty"`
	Kept   int        `json:"kept"`
	// Transfers are the serials of all zones; missing: no snapshot of the two has anything of transfers.
	Transfers *DNSTransfers `json:"transfers,omitempty"`
	// Services are those that changed or are new, Gone those that are no more; both by name.
	Services []DNSService `json:"services,omitempty"`
	Gone     []string     `json:"gone,omitempty"`
	// Signing is that of the result, if the base has another; SigningDigest is its hash. Empty: the result has none.
	Signing       *Signing `json:"signing,omitempty"`
	SigningDigest string   `json:"signingDigest,omitempty"`
	// Sealed and SealedDigest are the same of the secrets that name servers share.
	Sealed       *Sealed `json:"sealed,omitempty"`
	SealedDigest string  `json:"sealedDigest,omitempty"`
}

// DNSTable is one entry of DNS.Tables.
type DNSTable struct {
	Index int `json:"index"`
	// Hash is the SHA-256 of the table in its binary form, in hex; empty: the index holds none now.
	Hash string `json:"hash,omitempty"`
	// Table is the table unless the base has one of that hash, at any index.
	Table *geo.Table `json:"table,omitempty"`
}

// DiffDNS makes the delta from old to next. Services and tables that are shared by both cost next to nothing. old may
// be nil. The delta shares its parts with next.
func DiffDNS(old, next *DNS) *DNSDelta {
	next = next.summed()
	d := &DNSDelta{To: next.Version, Created: next.Created, At: next.At, Digest: next.digest().String()}
	d.SigningDigest, d.SealedDigest = next.Signing.digest(), next.Sealed.digest()
	if old == nil {
		d.Whole, d.Transfers = next, transfersOf(nil, next)
		return d
	}
	d.From = old.Version
	d.Transfers = transfersOf(old, next)
	if old = old.summed(); !old.ordered || !next.ordered {
		d.Whole = next
		return d
	}
	if next.Signing != nil && old.Signing != next.Signing && old.Signing.digest() != d.SigningDigest {
		d.Signing = next.Signing
	}
	if !old.Sealed.Equal(next.Sealed) {
		d.Sealed = next.Sealed
	}
	if old.zonesSum != next.zonesSum || !sameTransfers(old.Zones, next.Zones) {
		zones := next.Zones
		d.Zones = &zones
	}
	d.tables(old, next)
	d.Services, d.Gone = diffServices(old.Services, next.Services)
	return d
}

func (d *DNSDelta) tables(old, next *DNS) {
	d.Kept = min(len(old.Tables), len(next.Tables))
	for i, s := range next.tableSums {
		if i < len(old.tableSums) && old.tableSums[i] == s {
			continue
		}
		t := DNSTable{Index: i}
		if next.Tables[i] != nil {
			t.Hash = s.String()
			if !slices.Contains(old.tableSums, s) {
				t.Table = next.Tables[i]
			}
		}
		d.Tables = append(d.Tables, t)
	}
}

// Apply makes the later snapshot of old, which is left alone; both share what did not change. An error matches ErrGap
// when the delta does not continue old, and ErrDigest when the result is not the one meant.
func (d *DNSDelta) Apply(old *DNS) (*DNS, error) {
	if have := versionOf(old); have != d.From && d.Whole == nil {
		return nil, fmt.Errorf("MAP_GAP: the delta leads from map version %d to %d, and version %d is at hand: fetch the whole map: %w", d.From, d.To, have, ErrGap)
	}
	out, err := d.build(old)
	if err != nil {
		return nil, fmt.Errorf("MAP_DIGEST: the delta from map version %d to %d does not fit the map at hand: %w: fetch the whole map: %w", d.From, d.To, err, ErrDigest)
	}
	if out = out.summed(); !d.applyKeys(out, old) {
		return nil, fmt.Errorf("MAP_DIGEST: the delta from map version %d to %d does not lead to the keys it is meant for: fetch the whole map: %w", d.From, d.To, ErrDigest)
	}
	if got := out.digest().String(); got != d.Digest {
		return nil, fmt.Errorf("MAP_DIGEST: the delta from map version %d to %d makes a map with digest %.12s, not %.12s: fetch the whole map: %w",
			d.From, d.To, got, d.Digest, ErrDigest)
	}
	if !d.Transfers.fits(out) {
		return nil, fmt.Errorf("MAP_DIGEST: the delta from map version %d to %d makes a map with other transfers than it was made for: fetch the whole map: %w",
			d.From, d.To, ErrDigest)
	}
	return out, nil
}

// applyKeys puts what is sealed into the result, and reports whether it is what was meant.
func (d *DNSDelta) applyKeys(out, old *DNS) bool {
	if d.Whole != nil {
		return (out.Signing.digest() == d.SigningDigest || d.SigningDigest == "") && (out.Sealed.digest() == d.SealedDigest || d.SealedDigest == "")
	}
	var signing, sealed bool
	out.Signing, signing = d.applySigning(old)
	out.Sealed, sealed = d.applySealed(old)
	return signing && sealed
}

func versionOf(d *DNS) uint64 {
	if d == nil {
		return 0
	}
	return d.Version
}

func (d *DNSDelta) build(old *DNS) (*DNS, error) {
	if d.Whole != nil {
		if !d.Whole.whole() {
			return nil, errors.New("a service of it is null")
		}
		return d.Whole, nil
	}
	old = cmp.Or(old, &DNS{}).summed()
	out := &DNS{Version: d.To, Created: d.Created, At: d.At, Zones: old.Zones, zonesSum: old.zonesSum}
	if d.Zones != nil {
		out.Zones, out.zonesSum = *d.Zones, sum{}
	}
	out.Serials = d.Transfers.serials(old)
	if err := d.buildTables(old, out); err != nil {
		return nil, err
	}
	changed := make([]*DNSService, len(d.Services))
	for i := range d.Services {
		s := d.Services[i]
		s.sum = sumService(&s) // never believed, always taken anew
		changed[i] = &s
	}
	var err error
	out.Services, err = patchServices(old.Services, changed, d.Gone)
	// A base in disorder makes a map with another digest, if it makes one.
	if out.ordered = old.ordered; out.zonesSum != (sum{}) {
		out.known = out
	}
	return out, err
}

func (d *DNSDelta) buildTables(old, out *DNS) error {
	out.Tables, out.tableSums = old.Tables, old.tableSums
	if len(d.Tables) == 0 && d.Kept == len(old.Tables) {
		return nil
	}
	if d.Kept < 0 || d.Kept > len(old.Tables) {
		return fmt.Errorf("it keeps %d tables of %d", d.Kept, len(old.Tables))
	}
	out.Tables, out.tableSums = slices.Clone(old.Tables[:d.Kept]), slices.Clone(old.tableSums[:d.Kept])
	for _, t := range d.Tables {
		table, s, err := t.find(old)
		switch {
		case err != nil:
			return err
		case t.Index >= 0 && t.Index < len(out.Tables):
			out.Tables[t.Index], out.tableSums[t.Index] = table, s
		case t.Index == len(out.Tables):
			out.Tables, out.tableSums = append(out.Tables, table), append(out.tableSums, s)
		default:
			return fmt.Errorf("it puts a table at index %d of %d", t.Index, len(out.Tables))
		}
	}
	return nil
}

// find is the table an entry means: the one it carries, or the one of its hash in the base.
func (t *DNSTable) find(old *DNS) (*geo.Table, sum, error) {
	if t.Table != nil {
		return t.Table, tableSum(t.Table), nil
	}
	if t.Hash == "" {
		return nil, sum{}, nil
	}
	for i, s := range old.tableSums {
		if s.String() == t.Hash {
			return old.Tables[i], s, nil
		}
	}
	return nil, sum{}, fmt.Errorf("it names table %.12s, which the map at hand lacks", t.Hash)
}

// ordered reports whether a list is in the order of its keys, each once.
func ordered[T any](list []T, key func(*T) string) bool {
	for i := 1; i < len(list); i++ {
		if key(&list[i-1]) >= key(&list[i]) {
			return false
		}
	}
	return true
}

// diffLists walks two ordered lists: put are the elements of next that old lacks or has otherwise, gone the keys only
// old has.
func diffLists[T any](old, next []T, key func(*T) string, same func(a, b *T) bool) (put []T, gone []string) {
	i := 0
	for j := range next {
		for i < len(old) && key(&old[i]) < key(&next[j]) {
			gone = append(gone, key(&old[i]))
			i++
		}
		if i < len(old) && key(&old[i]) == key(&next[j]) {
			if i++; same(&old[i-1], &next[j]) {
				continue
			}
		}
		put = append(put, next[j])
	}
	for ; i < len(old); i++ {
		gone = append(gone, key(&old[i]))
	}
	return put, gone
}

// patchLists undoes diffLists: it makes next of old.
func patchLists[T any](old, put []T, gone []string, key func(*T) string) ([]T, error) {
	if !ordered(old, key) || !ordered(put, key) {
		return nil, errors.New("a list is not in order")
	}
	if len(put) == 0 && len(gone) == 0 {
		return old, nil
	}
	out := make([]T, 0, len(old)+len(put))
	for i := range old {
		k := key(&old[i])
		for len(put) > 0 && key(&put[0]) < k {
			out, put = append(out, put[0]), put[1:]
		}
		switch {
		case len(put) > 0 && key(&put[0]) == k:
			out, put = append(out, put[0]), put[1:]
		case len(gone) > 0 && gone[0] == k:
			gone = gone[1:]
		default:
			out = append(out, old[i])
		}
	}
	if len(gone) > 0 {
		return nil, fmt.Errorf("it ends %q, which the snapshot at hand lacks", gone[0])
	}
	return append(out, put...), nil
}

// orderedServices reports whether services are in the order of their names, each once.
func orderedServices(list []*DNSService) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1].Name >= list[i].Name {
			return false
		}
	}
	return true
}

// diffServices is diffLists for services, of which those that did not change are the same pointers. They have their sums.
func diffServices(old, next []*DNSService) (put []DNSService, gone []string) {
	i := 0
	for _, s := range next {
		for i < len(old) && old[i] != s && old[i].Name < s.Name {
			gone = append(gone, old[i].Name)
			i++
		}
		if i < len(old) && (old[i] == s || old[i].Name == s.Name) {
			if i++; old[i-1] == s || old[i-1].sum == s.sum {
				continue
			}
		}
		put = append(put, *s)
	}
	for ; i < len(old); i++ {
		gone = append(gone, old[i].Name)
	}
	return put, gone
}

// patchServices undoes diffServices: it makes next of old, which is in order, by looking up the places of what changed.
func patchServices(old, put []*DNSService, gone []string) ([]*DNSService, error) {
	if !orderedServices(put) {
		return nil, errors.New("a list is not in order")
	}
	if len(put) == 0 && len(gone) == 0 {
		return old, nil
	}
	out := make([]*DNSService, 0, len(old)+len(put))
	at := func(name string) (int, bool) {
		return slices.BinarySearchFunc(old, name, func(s *DNSService, name string) int { return cmp.Compare(s.Name, name) })
	}
	for len(put) > 0 || len(gone) > 0 {
		if len(put) > 0 && (len(gone) == 0 || put[0].Name < gone[0]) {
			i, found := at(put[0].Name)
			out = append(appendLong(out, old[:i]), put[0])
			if old, put = old[i:], put[1:]; found {
				old = old[1:]
			}
			continue
		}
		i, found := at(gone[0])
		if !found {
			return nil, fmt.Errorf("it ends %q, which the snapshot at hand lacks", gone[0])
		}
		out = appendLong(out, old[:i])
		old, gone = old[i+1:], gone[1:]
	}
	return appendLong(out, old), nil
}

// appendLong is append for a list that may have a million entries, most of them in memory that the kernel has yet to give:
// others have the processor in between.
func appendLong(out, list []*DNSService) []*DNSService {
	const atOnce = 1 << 14
	for len(list) > atOnce {
		out, list = append(out, list[:atOnce]...), list[atOnce:]
		runtime.Gosched()
	}
	return append(out, list...)
}
