package route

import "steerpoint/internal/ruletext"

// Clean gives the one form of a path, as ruletext.CleanPath does, by which what is written in resources is checked.
func Clean(dst, raw []byte) (path []byte, err error) { return ruletext.CleanPath(dst, raw) }
