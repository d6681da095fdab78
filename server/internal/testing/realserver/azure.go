package realserver

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Azure is a server that speaks the protocol of Azure Blob Storage: Azurite, in memory. It is installed by
// npm from tools/azurite/package.json, in the folder CARILLON_AZURITE, or carillon/azurite of the user's
// cache. It has no containers yet.
type Azure struct {
	web
	// Account and Key are what every Azurite has.
	Account, Key string
}

// StartAzure starts a server that ends with the test.
func StartAzure(t testing.TB) *Azure {
	t.Helper()
	folder := cached(t, "azurite", "CARILLON_AZURITE")
	script := filepath.Join(folder, "node_modules", "azurite", "dist", "src", "blob", "main.js")
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(script)
	}
	if err != nil {
		Missing(t, "there is no Azurite: npm install --prefix "+folder+" with tools/azurite/package.json: "+err.Error())
	}
	s := &Azure{Account: "devstoreaccount1",
		// It is the same everywhere, and in its documentation.
		Key: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="}
	s.Port = Port(t)
	s.program = Program{Path: node, Folder: Folder(t, ""), Args: []string{script,
		"--blobHost", "127.0.0.1", "--blobPort", strconv.Itoa(s.Port), "--silent",
		"--disableTelemetry", "--inMemoryPersistence", "--skipApiVersionCheck",
		"--disableProductStyleUrl"}}
	s.Up(t)
	return s
}

// Endpoint is the URL of its account.
func (s *Azure) Endpoint() string { return s.web.Endpoint() + "/" + s.Account }
