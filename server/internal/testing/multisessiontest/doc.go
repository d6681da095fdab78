// Package multisessiontest has the tests of package multisession that need nodes, which are of this module.
package multisessiontest
