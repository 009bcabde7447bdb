// Mounts a directory as one client of a file server would have it: with a memory.
//
//	delayed-mount SECONDS DIRECTORY MOUNTPOINT
//
// For SECONDS the kernel answers from memory about attributes, names, and names that were not there (as an NFS client
// does for acregmax, acdirmax and with lookupcache=all), and a directory is listed as it was when it was last listed,
// unless this mount has changed it since. A file that is opened is the one that is there now (close-to-open). Renames,
// links and exclusive creations are decided in the directory itself, in one step, as by a file server.
package main

import (
	"context"
	"log"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

type node struct {
	fs.LoopbackNode
	memory time.Duration

	mutex   sync.Mutex
	listed  time.Time
	entries []fuse.DirEntry
}

func (n *node) WrapChild(_ context.Context, operations fs.InodeEmbedder) fs.InodeEmbedder {
	if loopback, ok := operations.(*fs.LoopbackNode); ok {
		return &node{LoopbackNode: fs.LoopbackNode{RootData: loopback.RootData}, memory: n.memory}
	}
	return operations
}

func (n *node) forget() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.entries = nil
}

func (n *node) OpendirHandle(ctx context.Context, _ uint32) (fs.FileHandle, uint32, syscall.Errno) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.entries == nil || time.Since(n.listed) >= n.memory {
		stream, errno := n.LoopbackNode.Readdir(ctx)
		if errno != 0 {
			return nil, 0, errno
		}
		defer stream.Close()
		entries := []fuse.DirEntry{}
		for stream.HasNext() {
			entry, errno := stream.Next()
			if errno != 0 {
				return nil, 0, errno
			}
			entries = append(entries, entry)
		}
		n.entries, n.listed = entries, time.Now()
	}
	return &listing{entries: n.entries}, 0, 0
}

// A listing is read from the beginning to the end, or from where a reader has been before.
type listing struct {
	entries  []fuse.DirEntry
	position int
}

func (l *listing) Readdirent(context.Context) (*fuse.DirEntry, syscall.Errno) {
	if l.position >= len(l.entries) {
		return nil, 0
	}
	entry := l.entries[l.position]
	l.position++
	entry.Off = uint64(l.position)
	return &entry, 0
}

func (l *listing) Fsyncdir(context.Context, uint32) syscall.Errno { return 0 }

func (l *listing) Seekdir(_ context.Context, offset uint64) syscall.Errno {
	l.position = int(offset)
	return 0
}

func (n *node) Create(ctx context.Context, name string, flags uint32, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	defer n.forget()
	return n.LoopbackNode.Create(ctx, name, flags, mode, out)
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	defer n.forget()
	return n.LoopbackNode.Mkdir(ctx, name, mode, out)
}

func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	defer n.forget()
	return n.LoopbackNode.Link(ctx, target, name, out)
}

func (n *node) Unlink(ctx context.Context, name string) syscall.Errno {
	defer n.forget()
	return n.LoopbackNode.Unlink(ctx, name)
}

func (n *node) Rename(ctx context.Context, name string, parent fs.InodeEmbedder, to string, flags uint32) syscall.Errno {
	defer n.forget()
	if other, ok := parent.(*node); ok {
		defer other.forget()
	}
	return n.LoopbackNode.Rename(ctx, name, parent, to, flags)
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		log.Fatal(err)
	}
	memory := time.Duration(seconds * float64(time.Second))
	var stat syscall.Stat_t
	if err := syscall.Stat(os.Args[2], &stat); err != nil {
		log.Fatal(err)
	}
	data := &fs.LoopbackRoot{Path: os.Args[2], Dev: uint64(stat.Dev)}
	root := &node{LoopbackNode: fs.LoopbackNode{RootData: data}, memory: memory}
	data.RootNode = root
	server, err := fs.Mount(os.Args[3], root, &fs.Options{
		EntryTimeout:    &memory,
		AttrTimeout:     &memory,
		NegativeTimeout: &memory,
		NullPermissions: true,
		MountOptions:    fuse.MountOptions{DirectMountStrict: true, FsName: os.Args[2], Name: "delayed"},
	})
	if err != nil {
		log.Fatal(err)
	}
	server.Wait()
}
