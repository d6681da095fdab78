package main

import (
	"os"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// zoneTables are where systems list the names of time zones.
var zoneTables = []string{"/usr/share/zoneinfo/tzdata.zi", "/usr/share/zoneinfo/zone1970.tab", "/usr/share/zoneinfo/zone.tab"}

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
