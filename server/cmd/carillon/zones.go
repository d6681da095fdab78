package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
)

// zoneTables are where systems list the names of time zones.
var zoneTables = []string{"/usr/share/zoneinfo/tzdata.zi", "/usr/share/zoneinfo/zone1970.tab", "/usr/share/zoneinfo/zone.tab"}

// zoneFlag has the shell complete --time-zone, and answers the place of a zone, or a zone in other letters,
// with the zone. Other names may be of zones that only the node knows.
func zoneFlag(cmd *cobra.Command) {
	completeBy(cmd, "time-zone", zoneNames)
	check(cmd, func(cmd *cobra.Command) error {
		zone := unknownZone(cmd)
		if like := meantZone(zone, zoneNames(cmd)); like != "" {
			return usagef("--time-zone: there is no time zone %q; did you mean %s?", clip(zone, 40), like)
		}
		return nil
	})
}

// unknownZone returns what --time-zone says if this machine knows no such zone, otherwise "".
func unknownZone(cmd *cobra.Command) string {
	flag := cmd.Flags().Lookup("time-zone")
	if flag == nil {
		return ""
	}
	zone := flag.Value.String()
	if _, err := time.LoadLocation(zone); err == nil {
		return ""
	}
	return zone
}

// meantZone returns the zone that a text stands for: by its place alone, or in other letters.
func meantZone(text string, zones []string) string {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, " ", "_")) }
	for _, zone := range zones {
		if text != "" && (plain(zone) == plain(text) || plain(path.Base(zone)) == plain(path.Base(text))) {
			return zone
		}
	}
	return ""
}

// zoneHint adds to the refusal of a zone which one may be meant; "" is none.
func zoneHint(zone string, err error) error {
	refused, ok := errors.AsType[*carillon.Error](err)
	if !ok || refused.Field != "time_zone" {
		return err
	}
	like := nearest(zone, zoneNames(nil))
	if like == "" {
		return err
	}
	hinted := *refused
	hinted.Message += fmt.Sprintf("; did you mean %s?", like)
	return &hinted
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
