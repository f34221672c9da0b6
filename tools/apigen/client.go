package main

import (
	"bytes"
	"fmt"
	"go/format"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const jsonType = "application/json"

// clientOf makes the files of the client's methods, one a tag, formatted.
func clientOf(data []byte, pkg string) (map[string][]byte, error) {
	ops, err := operations(data)
	if err != nil {
		return nil, err
	}
	groups := map[string][]*operation{}
	for _, op := range ops {
		if t, _, _, err := op.answer(); err != nil {
			return nil, err
		} else if t != "text/event-stream" { // a stream is watched, not called
			groups[op.Tags[0]] = append(groups[op.Tags[0]], op)
		}
	}
	files := map[string][]byte{}
	for tag, group := range groups {
		var code bytes.Buffer
		for _, op := range group {
			if err := method(&code, op); err != nil {
				return nil, err
			}
		}
		text, err := format.Source(append(head(pkg, code.String()), code.Bytes()...))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", tag, err)
		}
		files["calls_"+strings.ReplaceAll(tag, "-", "")+".go"] = text
	}
	return files, nil
}

// head is the beginning of a file with the imports that its code needs.
func head(pkg, code string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\npackage %s\n\nimport (\n", generated, pkg)
	for _, path := range []string{"context", "encoding/json", "io", "net/http", "net/url", "strconv", "time"} {
		name := path[strings.LastIndexByte(path, '/')+1:]
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(code) {
			fmt.Fprintf(&b, "\t%q\n", path)
		}
	}
	b.WriteString(")\n")
	return []byte(b.String())
}

// method writes the method of an operation, and the type of its optional parameters if it has any.
func method(w *bytes.Buffer, op *operation) error {
	name := exported(op.ID)
	answer, out, etag, err := op.answer()
	if err != nil {
		return err
	}
	args := []string{"ctx context.Context"}
	var optional []*parameter
	for _, p := range op.Parameters {
		switch t := p.goType(); {
		case t == "":
			return fmt.Errorf("%s: parameter %s has a type that apigen does not know", op.ID, p.Name)
		case p.Required:
			args = append(args, unexported(p.Name)+" "+t)
		default:
			optional = append(optional, p)
		}
	}
	if len(optional) > 0 {
		params(w, name, optional)
		args = append(args, "p "+name+"Params")
	}
	bodyType, in := op.body()
	if bodyType != "" {
		args = append(args, "in "+bodyGo(bodyType, in))
	}
	results := "error"
	switch result := goTypeOf(out); {
	case answer == "":
	case answer != jsonType:
		args = append(args, "w io.Writer")
	case etag:
		results = "(out " + result + ", etag string, err error)"
	default:
		results = "(out " + result + ", err error)"
	}
	comment(w, name, op)
	fmt.Fprintf(w, "func (c *Client) %s(%s) %s {\n", name, strings.Join(args, ", "), results)
	op.request(w, bodyType)
	switch {
	case answer == "":
		w.WriteString("\t_, err := c.call(ctx, r, nil)\n\treturn err\n}\n")
	case answer != jsonType:
		fmt.Fprintf(w, "\treturn c.copy(ctx, r, %q, w)\n}\n", answer)
	case etag:
		w.WriteString("\tetag, err = c.call(ctx, r, &out)\n\treturn out, etag, err\n}\n")
	default:
		w.WriteString("\t_, err = c.call(ctx, r, &out)\n\treturn out, err\n}\n")
	}
	return nil
}

// request writes the lines that put the request together.
func (op *operation) request(w *bytes.Buffer, bodyType string) {
	fmt.Fprintf(w, "\tr := newCall(%s, %s)\n", methodName(op.method), op.goPath())
	for _, p := range op.Parameters {
		value := "p." + exported(p.Name)
		if p.Required {
			value = unexported(p.Name)
		}
		switch p.In {
		case "query":
			fmt.Fprintf(w, "\tr.setQuery(%q, %s)\n", p.Name, value)
		case "header":
			fmt.Fprintf(w, "\tr.setHeader(%q, %s)\n", p.Name, value)
		}
	}
	if bodyType != "" {
		fmt.Fprintf(w, "\tr.setBody(%q, in)\n", bodyType)
	}
}

func comment(w *bytes.Buffer, name string, op *operation) {
	fmt.Fprintf(w, "\n// %s is %s %s: %s.\n", name, op.method, op.path, lower(strings.TrimSuffix(op.Summary, ".")))
	if len(op.own) > 0 {
		fmt.Fprintf(w, "//\n// Codes of its problems, beside those that every call can meet: %s.\n", strings.Join(op.own, ", "))
	}
}

// params writes the type of an operation's optional parameters.
func params(w *bytes.Buffer, name string, optional []*parameter) {
	fmt.Fprintf(w, "\n// %sParams are the optional parameters of %s; zero fields are not sent.\ntype %sParams struct {\n", name, name, name)
	for _, p := range optional {
		fmt.Fprintf(w, "\t%s %s", exported(p.Name), p.goType())
		if p.Description != "" {
			fmt.Fprintf(w, " // %s", p.Description)
		}
		w.WriteString("\n")
	}
	w.WriteString("}\n")
}

// goType is the Go type of a parameter; "" if there is none.
func (p *parameter) goType() string {
	switch t := p.Schema.Type; {
	case t == "string" && p.Schema.Format == "date-time":
		return "time.Time"
	case t == "string":
		return "string"
	case t == "integer" && p.In == "query":
		return "int"
	case t == "integer":
		return "int64"
	case t == "boolean" && p.In == "query":
		return "bool"
	}
	return ""
}

// goPath is the expression of an operation's path.
func (op *operation) goPath() string {
	parts := []string{}
	for rest := op.path; rest != ""; {
		begin := strings.IndexByte(rest, '{')
		if begin < 0 {
			parts = append(parts, fmt.Sprintf("%q", rest))
			break
		}
		end := strings.IndexByte(rest, '}')
		parts = append(parts, fmt.Sprintf("%q", rest[:begin]), op.escaped(rest[begin+1:end]))
		rest = rest[end+1:]
	}
	return strings.Join(parts, "+")
}

func (op *operation) escaped(name string) string {
	for _, p := range op.Parameters {
		if p.Name == name && p.goType() == "int64" {
			return "strconv.FormatInt(" + unexported(name) + ", 10)"
		}
	}
	return "url.PathEscape(" + unexported(name) + ")"
}

func methodName(m string) string {
	return "http.Method" + m[:1] + strings.ToLower(m[1:])
}

// goTypeOf is the Go type of a value that is described by OpenAPI 3.1: a type of the package by its name, or JSON as it is.
func goTypeOf(s *schema) string {
	if s != nil {
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
			return name
		}
	}
	return "json.RawMessage"
}

func bodyGo(mediaType string, s *schema) string {
	if mediaType == jsonType {
		return goTypeOf(s)
	}
	return "io.Reader"
}

// initialisms are the words that Go writes in capitals.
var initialisms = map[string]string{"api": "API", "id": "ID", "url": "URL", "dns": "DNS", "ttl": "TTL"}

// words parts a name of the API: if-none-match, applySet.
func words(name string) []string {
	var out []string
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' || r == '_' }) {
		begin := 0
		for i, r := range part {
			if i > begin && unicode.IsUpper(r) && !unicode.IsUpper(rune(part[i-1])) {
				out = append(out, part[begin:i])
				begin = i
			}
		}
		out = append(out, part[begin:])
	}
	return out
}

func exported(name string) string {
	var b strings.Builder
	for _, word := range words(name) {
		if all, ok := initialisms[strings.ToLower(word)]; ok {
			b.WriteString(all)
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// taken are names that a method's parameters must not have.
var taken = map[string]string{"type": "kind", "range": "within", "func": "function", "c": "value", "r": "value", "p": "value", "w": "value", "in": "value", "out": "value"}

func unexported(name string) string {
	e := exported(name)
	for word, all := range initialisms {
		if strings.HasPrefix(e, all) && strings.EqualFold(words(name)[0], word) {
			return word + e[len(all):]
		}
	}
	u := strings.ToLower(e[:1]) + e[1:]
	if other, ok := taken[u]; ok {
		return other
	}
	return u
}

// lower begins a clause: the first letter is small unless the word is written in capitals.
func lower(s string) string {
	if len(s) < 2 || unicode.IsUpper(rune(s[1])) || slices.Contains([]string{"DNS"}, s) {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
