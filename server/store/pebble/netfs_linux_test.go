package pebble

import "testing"

// TestRemoteFileSystems looks up the numbers of statfs(2) that are refused, and of local file systems, which
// are not.
func TestRemoteFileSystems(t *testing.T) {
	for magic, want := range map[uint32]string{0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB2",
		0x65735546: "FUSE"} {
		if got, remote := remoteMagic[magic]; !remote || got != want {
			t.Errorf("%#x is %q, %v; want %q", magic, got, remote, want)
		}
	}
	for name, magic := range map[string]uint32{"ext4": 0xef53, "xfs": 0x58465342, "btrfs": 0x9123683e,
		"tmpfs": 0x01021994, "overlay": 0x794c7630, "zfs": 0x2fc12fc1} {
		if got, remote := remoteMagic[magic]; remote {
			t.Errorf("%s is taken for %s", name, got)
		}
	}
}
