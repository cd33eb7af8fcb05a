package fakeverbs

import "golang.org/x/sys/unix"

// inode returns the inode number of the file behind a descriptor of this process.
func inode(fd int32) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(fd), &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}
