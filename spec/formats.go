package spec

import (
	"regexp"
	"strings"
	"unicode"
)

// Patterns of the formats. They are written into the JSON Schema too, so they use what ECMA 262 knows.
const (
	labelPattern = `^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`
	path2Pattern = `^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?/[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`
	pathPattern  = "^/[!-)+-~]*\\*?$"
	tokenPattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
	// nodePattern is that of names of nodes and points: a machine's own name, with its domain or without.
	nodePattern = `^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`
	wordPattern = `^[a-z][a-z0-9_]{0,39}$`
	// keyPattern is that of keys of a Secret: names of variables and of files both.
	keyPattern         = `^[A-Za-z0-9_]([A-Za-z0-9._-]{0,62}[A-Za-z0-9_])?$`
	fingerprintPattern = `^[0-9a-f]{16}$`
)

var patterns = map[string]*regexp.Regexp{
	"label": regexp.MustCompile(labelPattern),
	"path2": regexp.MustCompile(path2Pattern),
	"path":  regexp.MustCompile(pathPattern),
	"token": regexp.MustCompile(tokenPattern),
	"word":  regexp.MustCompile(wordPattern),
	"node":  regexp.MustCompile(nodePattern),
	"key":   regexp.MustCompile(keyPattern),

	"fingerprint": regexp.MustCompile(fingerprintPattern),
}

func formatWords(format string) string {
	switch format {
	case "label":
		return "at most 40 of a-z, 0-9 and '-', with a letter or digit first and last"
	case "node":
		return "at most 63 of a-z, 0-9, '-' and '.', with a letter or digit first and last"
	case "path2":
		return "two names such as shop/default"
	case "path":
		return "a path that starts with /, such as /, /img/logo.png or /img/*"
	case "token":
		return "letters, digits and -_.!#$%&'*+^`|~"
	case "word":
		return "a word of a-z, 0-9 and '_'"
	case "key":
		return "at most 64 letters, digits and '_.-', with a letter, digit or '_' first and last"
	case "fingerprint":
		return "16 hexadecimal digits"
	}
	return ""
}

// checkFormat checks one text of a field. It gives nil for a text that is fine.
func checkFormat(format, s string) *valueError {
	for _, r := range s {
		if r == '\n' || r == '\t' {
			if format == "text" {
				continue
			}
		}
		if unicode.IsControl(r) {
			return &valueError{CodeControl, "holds a control character", "text on one line", ""}
		}
	}
	re := patterns[format]
	if re == nil || re.MatchString(s) && (format != "path" || pathShape(s)) {
		return nil
	}
	e := &valueError{CodeBadName, "is not a valid name", formatWords(format), ""}
	switch format {
	case "path":
		e.code, e.problem = CodeBadValue, "is not a path"
	case "label":
		if meant := asLabel(s); re.MatchString(meant) {
			e.suggest = meant
		}
	}
	return e
}

// pathShape allows a star only as the last part: /img/* but not /img* or /a/*/b.
func pathShape(s string) bool {
	star := strings.IndexByte(s, '*')
	return star < 0 || star == len(s)-1 && strings.HasSuffix(s, "/*")
}

// asLabel is the label nearest to a text.
func asLabel(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, s)
	return strings.Trim(s[:min(len(s), 40)], "-")
}
