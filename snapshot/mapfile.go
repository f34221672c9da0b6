package snapshot

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"steerpoint/geo"
)

// MapVersion is the newest form in which a DNS snapshot is kept in a file, see MarshalMap. Version 1 is its JSON.
const MapVersion = 2

// MarshalMap gives the pieces of a snapshot's compact form, to be written one after the other. A million services that share
// their lists of rules take a few seconds less to read in it than as JSON, and a tenth of the room.
//
// It is a JSON head, which has everything but what there may be a million of; then the tables; then texts in one piece, so
// that reading them is one allocation; then a dictionary of words that recur, the different lists of rules, the records
// of the zones, and the services, which name lists by number. Numbers are varints; each part has its length in octets
// before it.
func (d *DNS) MarshalMap() ([][]byte, error) {
	head := *d
	head.Services, head.Tables = nil, nil
	head.Zones = slices.Clone(d.Zones)
	for i := range head.Zones {
		head.Zones[i].Records = nil
	}
	text, err := json.Marshal(&head)
	if err != nil {
		return nil, fmt.Errorf("head of the map: %w", err)
	}
	w := mapWriter{words: map[string]uint64{}, byFirst: map[*DNSRule]uint64{}, byValue: map[string]uint64{}}
	if err := w.tables(d.Tables); err != nil {
		return nil, err
	}
	w.zones(d.Zones)
	w.services(d.Services)
	var out [][]byte
	for _, part := range [][][]byte{
		{text},
		{w.table.buf},
		w.early.text.with(w.text),
		{w.dict.buf},
		{w.lists.buf},
		{w.records.buf},
		w.early.list.with(w.list.buf),
		w.early.sums.with(w.sums),
	} {
		size := 0
		for _, piece := range part {
			size += len(piece)
		}
		out = append(append(out, binary.AppendUvarint(nil, uint64(size))), part...)
	}
	return out, nil
}

// mapWriter collects the parts.
type mapWriter struct {
	table, dict, lists, records, list canon
	text, sums                        []byte
	early                             struct{ text, list, sums pieces } // of text, list and sums

	words   map[string]uint64   // the dictionary: number of each word
	byFirst map[*DNSRule]uint64 // number of each list of rules, by where it lies
	byValue map[string]uint64   // and by what it says
	rules   canon               // a list in the making
}

func (w *mapWriter) tables(tables []*geo.Table) error {
	w.table.count(len(tables))
	for i, t := range tables {
		var data []byte
		if t != nil {
			var err error
			if data, err = t.MarshalBinary(); err != nil {
				return fmt.Errorf("table %d of the map: %w", i, err)
			}
		}
		w.table.count(len(data))
		w.table.buf = append(w.table.buf, data...)
	}
	return nil
}

// say puts a text among the texts, and its length where it belongs.
func (w *mapWriter) say(c *canon, s string) {
	c.count(len(s))
	w.text = append(w.text, s...)
}

func (w *mapWriter) sayAll(c *canon, list []string) {
	c.count(len(list))
	for _, s := range list {
		w.say(c, s)
	}
}

// word writes the number of a word.
func (w *mapWriter) word(c *canon, s string) {
	n, ok := w.words[s]
	if !ok {
		n = uint64(len(w.words))
		w.words[s] = n
		w.dict.text(s)
	}
	c.version(n)
}

func (w *mapWriter) zones(zones []DNSZone) {
	for i := range zones {
		w.records.count(len(zones[i].Records))
		for j := range zones[i].Records {
			r := &zones[i].Records[j]
			w.say(&w.records, r.Name)
			w.word(&w.records, r.Type)
			w.records.time(r.TTL)
			w.sayAll(&w.records, r.Data)
		}
	}
}

// yieldAfter is after how many services others have the processor: about half a millisecond. Where there is one, queries wait
// meanwhile, and the scheduler by itself would let them wait 10 ms.
const yieldAfter = 512

// pieces are what was written so far of a part that may become large. One piece that grows would be copied a dozen times,
// and for milliseconds at once.
type pieces [][]byte

const pieceSize = 1 << 18

// take puts a buffer among the pieces when it is large enough, and gives the one to go on with.
func (p *pieces) take(buf []byte) []byte {
	if len(buf) < pieceSize {
		return buf
	}
	*p = append(*p, buf)
	return make([]byte, 0, pieceSize+pieceSize/8)
}

// with are all of them and a last one.
func (p pieces) with(last []byte) [][]byte { return append(p, last) }

func (w *mapWriter) services(list []*DNSService) {
	w.list.count(len(list))
	for i, s := range list {
		if i%yieldAfter == yieldAfter-1 {
			w.text, w.list.buf, w.sums = w.early.text.take(w.text), w.early.list.take(w.list.buf), w.early.sums.take(w.sums)
			runtime.Gosched()
		}
		// The name is most often the beginning of the CNAME; then it is not said again.
		prefix := len(s.CNAME) > len(s.Name) && s.CNAME[:len(s.Name)] == s.Name
		w.list.truth(prefix)
		w.say(&w.list, s.CNAME)
		if prefix {
			w.list.count(len(s.Name))
		} else {
			w.say(&w.list, s.Name)
		}
		w.word(&w.list, s.Zone)
		w.sayAll(&w.list, s.Hosted)
		w.sayAll(&w.list, s.Flat)
		w.list.count(s.Table)
		w.list.time(s.NegativeTTL)
		w.list.time(s.Made)
		w.list.version(s.Revision)
		w.list.version(w.listOf(s.Rules))
		w.sums = append(w.sums, s.sum[:]...)
	}
}

// listOf is the number of a list of rules; equal ones have one.
func (w *mapWriter) listOf(rules []DNSRule) uint64 {
	if len(rules) > 0 {
		if n, ok := w.byFirst[&rules[0]]; ok {
			return n
		}
	}
	w.rules.buf = w.rules.buf[:0]
	w.rules.count(len(rules))
	for i := range rules {
		w.rule(&w.rules, &rules[i])
	}
	n, ok := w.byValue[string(w.rules.buf)]
	if !ok {
		n = uint64(len(w.byValue))
		w.byValue[string(w.rules.buf)] = n
		w.lists.buf = append(w.lists.buf, w.rules.buf...)
	}
	if len(rules) > 0 {
		w.byFirst[&rules[0]] = n
	}
	return n
}

func (w *mapWriter) rule(c *canon, r *DNSRule) {
	w.word(c, r.Rule)
	w.word(c, r.Scope)
	c.version(r.Decision)
	c.truth(r.Degraded)
	c.time(r.TTL)
	c.time(r.MinTTL)
	c.time(r.Soonest)
	c.count(len(r.Choices))
	for i := range r.Choices {
		x := &r.Choices[i]
		w.word(c, x.Edge)
		c.count(x.Weight)
		w.word(c, x.Target)
		c.addresses(x.A)
		c.addresses(x.AAAA)
		c.addresses(x.FlatA)
		c.addresses(x.FlatAAAA)
		c.truth(x.HasA)
		c.truth(x.HasAAAA)
	}
}

// errMap says that octets are not a map.
var errMap = errors.New("it is not a map")

// UnmarshalMap reads a snapshot from a file of some version, up to MapVersion. Services share lists of rules, and all
// share one piece of text.
func UnmarshalMap(version int, data []byte) (*DNS, error) {
	d := new(DNS)
	if version == 1 {
		if err := json.Unmarshal(data, d); err != nil {
			return nil, fmt.Errorf("%w: %w", errMap, err)
		}
		if !d.whole() {
			return nil, fmt.Errorf("%w: a service of it is null", errMap)
		}
		return d, nil
	}
	var parts [8][]byte
	in := mapReader{buf: data}
	for i := range parts {
		parts[i] = in.take(in.size(in.number()))
	}
	if in.bad || len(in.buf) > 0 {
		return nil, fmt.Errorf("%w: its parts do not have the lengths it states", errMap)
	}
	if err := json.Unmarshal(parts[0], d); err != nil {
		return nil, fmt.Errorf("%w: %w", errMap, err)
	}
	if err := d.readTables(parts[1]); err != nil {
		return nil, err
	}
	r := mapReader{text: string(parts[2])}
	r.part(parts[3], r.readWords)
	r.part(parts[4], r.readLists)
	r.part(parts[5], func() { r.readRecords(d.Zones) })
	r.part(parts[6], func() { d.Services = r.readServices(parts[7]) })
	if r.bad {
		return nil, fmt.Errorf("%w: a part of it does not read to its end", errMap)
	}
	return d, nil
}

func (d *DNS) readTables(data []byte) error {
	r := mapReader{buf: data}
	n := r.count()
	for i := range n {
		part := r.take(r.size(uint64(r.signed())))
		if r.bad {
			break
		}
		var t *geo.Table
		if len(part) > 0 {
			t = new(geo.Table)
			if err := t.UnmarshalBinary(part); err != nil {
				return fmt.Errorf("%w: table %d: %w", errMap, i, err)
			}
		}
		d.Tables = append(d.Tables, t)
	}
	if r.bad || len(r.buf) > 0 {
		return fmt.Errorf("%w: its tables do not read to their end", errMap)
	}
	return nil
}

// mapReader reads what mapWriter wrote. After a fault bad is set and everything reads as zero.
type mapReader struct {
	buf   []byte
	text  string
	words []string
	lists [][]DNSRule
	bad   bool
}

// part reads one part, which must be used up.
func (r *mapReader) part(data []byte, read func()) {
	r.buf = data
	if read(); len(r.buf) > 0 {
		r.bad = true
	}
}

func (r *mapReader) fail() {
	r.bad, r.buf, r.text = true, nil, ""
}

func (r *mapReader) number() uint64 {
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

func (r *mapReader) signed() int64 {
	v, n := binary.Varint(r.buf)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// count is a number of elements, each of which takes at least one octet: more than that is a fault, and no reason to ask
// for memory.
func (r *mapReader) count() int { return r.size(uint64(r.signed())) }

func (r *mapReader) size(n uint64) int {
	if n > uint64(len(r.buf)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *mapReader) int() int {
	n := r.signed()
	if n < math.MinInt32 || n > math.MaxInt32 {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *mapReader) time() time.Duration { return time.Duration(r.signed()) }

func (r *mapReader) truth() bool { return r.number() != 0 }

func (r *mapReader) take(n int) []byte {
	if n > len(r.buf) {
		r.fail()
		return nil
	}
	out := r.buf[:n:n]
	r.buf = r.buf[n:]
	return out
}

// said is the next text.
func (r *mapReader) said() string {
	n := r.signed()
	if n < 0 || n > int64(len(r.text)) {
		r.fail()
		return ""
	}
	s := r.text[:n]
	r.text = r.text[n:]
	return s
}

func (r *mapReader) saidAll() []string {
	n := r.count()
	if n == 0 {
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.said()
	}
	return list
}

func (r *mapReader) word() string {
	n := r.number()
	if n >= uint64(len(r.words)) {
		r.fail()
		return ""
	}
	return r.words[n]
}

func (r *mapReader) readWords() {
	for len(r.buf) > 0 {
		r.words = append(r.words, string(r.take(r.size(r.number()))))
	}
}

func (r *mapReader) readLists() {
	for len(r.buf) > 0 {
		list := make([]DNSRule, r.count())
		for i := range list {
			r.readRule(&list[i])
		}
		r.lists = append(r.lists, list)
	}
}

func (r *mapReader) readRule(to *DNSRule) {
	*to = DNSRule{
		Rule: r.word(), Scope: r.word(), Decision: r.number(), Degraded: r.truth(), TTL: r.time(), MinTTL: r.time(), Soonest: r.time(),
	}
	n := r.count()
	if n == 0 {
		return
	}
	to.Choices = make([]DNSChoice, n)
	for i := range to.Choices {
		to.Choices[i] = DNSChoice{
			Edge: r.word(), Weight: r.int(), Target: r.word(), A: r.addresses(), AAAA: r.addresses(),
			FlatA: r.addresses(), FlatAAAA: r.addresses(), HasA: r.truth(), HasAAAA: r.truth(),
		}
	}
}

func (r *mapReader) addresses() []netip.Addr {
	n := r.count()
	if n == 0 {
		return nil
	}
	list := make([]netip.Addr, n)
	for i := range list {
		if list[i].UnmarshalBinary(r.take(r.size(r.number()))) != nil {
			r.fail()
		}
	}
	return list
}

func (r *mapReader) readRecords(zones []DNSZone) {
	for i := range zones {
		n := r.count()
		if n == 0 {
			continue
		}
		zones[i].Records = make([]DNSRecord, n)
		for j := range zones[i].Records {
			zones[i].Records[j] = DNSRecord{Name: r.said(), Type: r.word(), TTL: r.time(), Data: r.saidAll()}
		}
	}
}

// serviceBlock is how many services are allocated at once: few allocations, and what is replaced later does not keep
// much alive.
const serviceBlock = 64

func (r *mapReader) readServices(sums []byte) []*DNSService {
	list := make([]*DNSService, r.count())
	var block []DNSService
	for i := range list {
		if r.bad {
			return nil
		}
		if len(block) == 0 {
			block = make([]DNSService, min(serviceBlock, len(list)-i))
		}
		list[i], block = &block[0], block[1:]
		r.readService(list[i])
		if len(sums) >= len(sum{}) {
			list[i].sum, sums = sum(sums[:len(sum{})]), sums[len(sum{}):]
		}
	}
	return list
}

func (r *mapReader) readService(s *DNSService) {
	prefix := r.truth()
	if s.CNAME = r.said(); prefix {
		n := r.int()
		if n < 0 || n > len(s.CNAME) {
			r.fail()
			n = 0
		}
		s.Name = s.CNAME[:min(n, len(s.CNAME))]
	} else {
		s.Name = r.said()
	}
	s.Zone, s.Hosted, s.Flat, s.Table, s.NegativeTTL = r.word(), r.saidAll(), r.saidAll(), r.int(), r.time()
	s.Made, s.Revision = r.time(), r.number()
	n := r.number()
	if n >= uint64(len(r.lists)) {
		r.fail()
		return
	}
	s.Rules = r.lists[n]
}
