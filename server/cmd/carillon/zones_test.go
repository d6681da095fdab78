package main

import "testing"

func TestLikeZone(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "America/Argentina/Buenos_Aires", "Asia/Tokyo"}
	for text, want := range map[string]string{"Berlin": "Europe/Berlin", "europe/berlin": "Europe/Berlin", "new york": "America/New_York",
		"America/Buenos_Aires": "America/Argentina/Buenos_Aires", "Asia/Tokio": "Asia/Tokyo", "utc": "UTC", "Moon/Base": ""} {
		if got := likeZone(text, zones); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
