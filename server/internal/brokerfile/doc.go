// Package brokerfile reads the file that names the brokers of a node, with their secrets and certificates
// (docs/brokers.md).
package brokerfile
