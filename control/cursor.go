package control

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
)

// PageInput asks for a part of a list. It is exported for the frame of the API.
type PageInput struct {
	Cursor string `query:"cursor" maxLength:"200" doc:"next of the page before; absent: the first page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"at most so many entries"`
}

// cursorOf is the cursor that goes on after the entry with this key. It names the entry, not a place: entries that come or
// go meanwhile shift nothing. List is what the cursor is good for.
func cursorOf(list, key string) string {
	sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(list+"\x00"+key)))
	return base64.RawURLEncoding.EncodeToString(append(sum, key...))
}

// keyOfCursor reads a cursor back; "" is the beginning. One that was cut, changed or made for another list is refused: it would
// lead somewhere, and nobody would see that it is the wrong place.
func keyOfCursor(list, cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < 4 || cursorOf(list, string(raw[4:])) != cursor {
		return "", badRequest("query.cursor", "the cursor is damaged or of another list: give `next` of the page before as it is, or none to begin anew")
	}
	return string(raw[4:]), nil
}

// pageOf cuts a page out of a list that is in memory. Key gives each entry a text of its own; entries come in the order of
// their keys.
func pageOf[T any](list string, in PageInput, all []T, key func(*T) string) (page []T, next string, err error) {
	after, err := keyOfCursor(list, in.Cursor)
	if err != nil {
		return nil, "", err
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(key(&a), key(&b)) })
	from := 0
	if in.Cursor != "" {
		i, found := slices.BinarySearchFunc(all, after, func(v T, k string) int { return cmp.Compare(key(&v), k) })
		if from = i; found {
			from++
		}
	}
	page = all[from:]
	if len(page) > in.Limit {
		page = page[:in.Limit]
		next = cursorOf(list, key(&page[in.Limit-1]))
	}
	return append([]T{}, page...), next, nil
}

// maxFiltered bounds the entries that one request looks at for a filter. A page may be short, or empty, and have a next.
const maxFiltered = 5000

// logPage collects the entries of a log that fit, newest first. Read gives a page of the log older than an ID and the
// cursor after it, "" at the end; id is the ID of an entry.
func logPage[T any](list string, in PageInput, fits func(*T) bool, id func(*T) string, read func(before string, limit int) ([]T, string, error)) (page []T, next string, err error) {
	before, err := keyOfCursor(list, in.Cursor)
	if err != nil {
		return nil, "", err
	}
	page = []T{}
	for seen := 0; seen < maxFiltered; {
		part, more, err := read(before, in.Limit)
		if err != nil {
			return nil, "", err
		}
		seen += max(len(part), 1)
		for i := range part {
			if !fits(&part[i]) {
				continue
			}
			page = append(page, part[i])
			if len(page) == in.Limit {
				if i == len(part)-1 && more == "" {
					return page, "", nil
				}
				return page, cursorOf(list, id(&part[i])), nil
			}
		}
		if before = more; more == "" {
			return page, "", nil
		}
	}
	return page, cursorOf(list, before), nil
}

// listName is the name of a list in its cursors.
func listName(parts ...string) string { return strings.Join(parts, "/") }
