package main

import (
	"os"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

// zoneTables are where systems list the names of time zones.
var zoneTables = []string{"/usr/share/zoneinfo/tzdata.zi", "/usr/share/zoneinfo/zone1970.tab", "/usr/share/zoneinfo/zone.tab"}

// zoneFlag has the shell complete --time-zone, and answers a name that is nearly that of a zone with that.
func zoneFlag(cmd *cobra.Command) {
	completeBy(cmd, "time-zone", zoneNames)
	check(cmd, func(cmd *cobra.Command) error {
		zone := cmd.Flags().Lookup("time-zone").Value.String()
		if _, err := time.LoadLocation(zone); err == nil {
			return nil
		}
		if like := likeZone(zone, zoneNames(cmd)); like != "" {
			return usagef("--time-zone: there is no time zone %q; did you mean %s?", clip(zone, 40), like)
		}
		return nil // the node may know it
	})
}

// likeZone returns the zone that a text may mean: its place alone, in other letters, or misspelt.
func likeZone(text string, zones []string) string {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "_")) }
	for _, zone := range zones {
		if plain(zone) == plain(text) || plain(path.Base(zone)) == plain(path.Base(text)) {
			return zone
		}
	}
	return nearest(text, zones)
}

// zoneNames lists the time zones that this machine knows; none if it has no list.
func zoneNames(*cobra.Command) []string {
	for _, table := range zoneTables {
		text, err := os.ReadFile(table)
		if err != nil {
			continue // the next one may be there
		}
		zones := []string{"UTC"}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			switch {
			case len(words) < 3 || strings.HasPrefix(line, "#"):
			case words[0] == "Z": // of tzdata.zi: a zone
				zones = append(zones, words[1])
			case words[0] == "L": // and another name of one
				zones = append(zones, words[2])
			case strings.Contains(words[2], "/") && unicode.IsUpper(rune(words[2][0])) &&
				!strings.HasSuffix(table, ".zi"):
				zones = append(zones, words[2])
			}
		}
		return unique(zones)
	}
	return nil
}
