package pebble

import "syscall"

// remoteMagic lists the file systems whose locks or fsync cannot be relied on, by statfs(2)'s number.
var remoteMagic = map[uint32]string{
	0x6969:     "NFS",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x517b:     "SMB",
	0x65735546: "FUSE",
	0x01021997: "9p",
	0x00c36400: "Ceph",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x73757245: "Coda",
	0x47504653: "GPFS",
	0x0bd00bd0: "Lustre",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
	0x564c:     "NCP",
	0x19830326: "BeeGFS",
}

// remoteFileSystem returns the name of dir's file system if it is a network one.
func remoteFileSystem(dir string) (name string, remote bool) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", false // the open that follows reports what is wrong
	}
	name, remote = remoteMagic[uint32(st.Type)]
	return name, remote
}
