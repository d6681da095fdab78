package main

import "strings"

// hint formats the word that is most like the typed one; "" if none is like it.
func hint(format, typed string, words []string) string {
	return unlessZero(format, nearest(typed, words))
}

// nearest returns the word that is most like the typed one, or "" if none is like it.
func nearest(typed string, words []string) string {
	if len(typed) > 64 {
		return "" // no known word is like it
	}
	best, least := "", 1+max(1, len(typed)/3)
	for _, w := range words {
		if d := distance(typed, w); d < least {
			best, least = w, d
		}
	}
	if best != "" || len(typed) < 3 {
		return best
	}
	for _, w := range words {
		if strings.HasPrefix(w, typed) {
			return w
		}
	}
	return ""
}

// distance returns the Levenshtein distance of two short words; swapping two neighbours counts as one step.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
