package names

import "strings"

// Nearest gives the candidate a person most likely meant, or "" when none is near: at most a third of the letters
// differ, a swap of two counting once; case and separators are free.
func Nearest(word string, candidates []string) string {
	if len(word) > 64 {
		return ""
	}
	best, bestCost := "", 1<<30
	for _, c := range candidates {
		cost := distance(fold(word), fold(c))
		if cost < bestCost && cost <= max(1, len(c)/3) && cost < min(len(word), len(c)) {
			best, bestCost = c, cost
		}
	}
	return best
}

func fold(s string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
}

// distance is the restricted Damerau-Levenshtein distance, in bytes.
func distance(a, b string) int {
	two, one := make([]int, len(b)+1), make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(one[j]+1, row[j-1]+1, one[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
		two, one, row = one, row, two
	}
	return one[len(b)]
}
