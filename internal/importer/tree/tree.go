// Package tree holds a configuration of another system as one kind of tree, whatever its syntax. Each value remembers
// whether it was translated or put on the list of losses, so that nothing can be left out without being seen.
package tree

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits of what is read. They are far above any real file; beyond them a file is hostile or not what it seems.
const (
	MaxBytes = 64 << 20
	MaxDepth = 64
	MaxNodes = 4 << 20
)

// ErrTooLarge says that a limit was passed; the wrapping error says which.
var ErrTooLarge = errors.New("the input is larger than it may be")

// Kind is the shape of a node.
type Kind uint8

// The shapes.
const (
	Scalar Kind = iota
	List
	Map
)

// State is what became of a value.
type State uint8

// The states.
const (
	Unread     State = iota
	Translated       // the result says it
	Listed           // the list of losses says it
)

// Node is a value with its place. Methods work on a nil node, which stands for a value that is not there.
type Node struct {
	Kind   Kind
	Key    string  // in a Map
	Text   string  // of a Scalar
	Null   bool    // a Scalar without a value
	Items  []*Node // of a List or a Map, in the order of the file
	File   string
	Line   int // 1 is the first; 0: the format has no lines
	Parent *Node

	state State
	place int              // among the parent's items
	index map[string]*Node // of a Map of many keys, made when first asked for
}

// indexed is from how many keys on a Map gets an index.
const indexed = 16

// Add appends a child, whose key is set, and returns it.
func (n *Node) Add(c *Node) *Node {
	c.Parent, c.place = n, len(n.Items)
	if _, known := n.index[c.Key]; n.index != nil && !known {
		n.index[c.Key] = c
	}
	n.Items = append(n.Items, c)
	return c
}

// Get is the child with a key; nil if there is none.
func (n *Node) Get(key string) *Node {
	if n == nil || n.Kind != Map {
		return nil
	}
	if len(n.Items) < indexed {
		for _, c := range n.Items {
			if c.Key == key {
				return c
			}
		}
		return nil
	}
	if n.index == nil {
		n.index = make(map[string]*Node, len(n.Items))
		for _, c := range slices.Backward(n.Items) { // of two with one key the first counts
			n.index[c.Key] = c
		}
	}
	return n.index[key]
}

// Str marks a scalar as translated and gives its text; "" for anything else.
func (n *Node) Str() string {
	if n == nil || n.Kind != Scalar {
		return ""
	}
	n.use()
	return n.Text
}

// Is reports whether a scalar has the text, in any case of letters. It marks nothing.
func (n *Node) Is(text string) bool {
	return n != nil && n.Kind == Scalar && strings.EqualFold(n.Text, text)
}

// Int marks a scalar as translated and gives its number. ok is false, and nothing marked, where it holds none.
func (n *Node) Int() (v int, ok bool) {
	if n == nil || n.Kind != Scalar {
		return 0, false
	}
	v, err := strconv.Atoi(strings.TrimSpace(n.Text))
	if err != nil {
		return 0, false
	}
	n.use()
	return v, true
}

// Each gives the items of a list, or the node alone where one value stands for a list of one.
func (n *Node) Each() []*Node {
	switch {
	case n == nil || n.Null:
		return nil
	case n.Kind == List:
		return n.Items
	}
	return []*Node{n}
}

// EachKey gives the children of a map; nil for anything else.
func (n *Node) EachKey() []*Node {
	if n == nil || n.Kind != Map {
		return nil
	}
	return n.Items
}

// Use marks everything of the node as translated, but for what is on the list already.
func (n *Node) Use() {
	n.leaves(func(l *Node) { l.use() })
}

// UseKeys marks what stands under some keys of a map as translated.
func (n *Node) UseKeys(keys ...string) {
	for _, k := range keys {
		n.Get(k).Use()
	}
}

// Equal reports whether two nodes hold the same.
func Equal(a, b *Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && a.Text == b.Text && a.Null == b.Null &&
		slices.EqualFunc(a.Items, b.Items, func(x, y *Node) bool { return x.Key == y.Key && Equal(x, y) })
}

func (n *Node) use() {
	if n.state == Unread {
		n.state = Translated
	}
}

// MarkListed marks everything of the node as being on the list.
func (n *Node) MarkListed() {
	n.leaves(func(l *Node) { l.state = Listed })
}

// leaves calls f for every value without values below it.
func (n *Node) leaves(f func(*Node)) {
	if n == nil {
		return
	}
	if len(n.Items) == 0 {
		f(n)
		return
	}
	for _, c := range n.Items {
		c.leaves(f)
	}
}

// Count is the number of values by what became of them.
func (n *Node) Count() (translated, listed, unread int) {
	n.leaves(func(l *Node) {
		switch l.state {
		case Translated:
			translated++
		case Listed:
			listed++
		default:
			unread++
		}
	})
	return translated, listed, unread
}

// Rest calls f for what nobody read: the highest nodes of which nothing was read.
func (n *Node) Rest(f func(*Node)) {
	if n == nil {
		return
	}
	translated, listed, unread := n.Count()
	switch {
	case unread == 0:
	case translated == 0 && listed == 0 && n.Parent != nil:
		f(n)
	case len(n.Items) == 0:
		f(n)
	default:
		for _, c := range n.Items {
			c.Rest(f)
		}
	}
}

// Path is where the node stands in its file: service_types.web.port, ResourceRecordSets[3].Region.
func (n *Node) Path() string {
	if n == nil || n.Parent == nil {
		return ""
	}
	up := n.Parent.Path()
	if n.Parent.Kind == List {
		return up + "[" + strconv.Itoa(n.place) + "]"
	}
	if up == "" {
		return n.Key
	}
	return up + "." + n.Key
}

// String is the value on one line, shortened.
func (n *Node) String() string {
	var b strings.Builder
	n.write(&b)
	s := b.String()
	if r := []rune(s); len(r) > 80 {
		return string(r[:77]) + "..."
	}
	return s
}

func (n *Node) write(b *strings.Builder) {
	switch {
	case n == nil || b.Len() > 400:
	case n.Kind == Scalar && n.Null:
		b.WriteString("null")
	case n.Kind == Scalar:
		b.WriteString(strings.Join(strings.Fields(strings.ToValidUTF8(n.Text, "?")), " "))
	default:
		open, shut := "[", "]"
		if n.Kind == Map {
			open, shut = "{", "}"
		}
		b.WriteString(open)
		for i, c := range n.Items {
			if i > 0 {
				b.WriteString(", ")
			}
			if n.Kind == Map {
				b.WriteString(c.Key + ": ")
			}
			c.write(b)
		}
		b.WriteString(shut)
	}
}

// Problem is a mistake in the syntax of a file.
type Problem struct {
	File string
	Line int
	Text string
	Err  error // ErrTooLarge where a limit was passed
}

// Error is FILE:LINE: TEXT.
func (p *Problem) Error() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// Unwrap is the cause, if any.
func (p *Problem) Unwrap() error { return p.Err }

// Budget counts nodes of one import, however many files it has.
type Budget struct{ nodes int }

// Take makes room for one more node at a depth.
func (b *Budget) Take(file string, line, depth int) error {
	b.nodes++
	switch {
	case depth > MaxDepth:
		return &Problem{file, line, fmt.Sprintf("is nested more than %d levels deep", MaxDepth), ErrTooLarge}
	case b.nodes > MaxNodes:
		return &Problem{file, line, fmt.Sprintf("holds more than %d values", MaxNodes), ErrTooLarge}
	}
	return nil
}
