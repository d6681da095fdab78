// Package rulesfile reads the file of rules by which callers with a JWT or a certificate are granted
// something, and again when it changes.
package rulesfile
