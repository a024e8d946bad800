package libnvm_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/tritier/tritier/libnvm"
	"github.com/tritier/tritier/libnvm/drive"
)

// A block is written so that it is durable, and read back.
func Example() {
	if err := roundTrip(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: hello from block 8
}

func roundTrip(ctx context.Context) (err error) {
	d, err := drive.Open(ctx, "mem:1MiB", drive.Options{Access: drive.FreshOnly})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	ns, err := d.Controller.Namespace(1)
	if err != nil {
		return err
	}
	q, err := d.Controller.CreateQueuePair(libnvm.QueueConfig{Depth: 8})
	if err != nil {
		return err
	}
	mem, err := d.Transport.Alloc(2 * ns.BlockSize)
	if err != nil {
		return err
	}
	const text = "hello from block 8"
	copy(mem.Bytes(), text)
	err = errors.Join(
		q.Do(&libnvm.Request{Op: libnvm.OpWrite, NS: ns, LBA: 8, Blocks: 1, Mem: mem}),
		q.Do(&libnvm.Request{Op: libnvm.OpFlush, NS: ns}),
		q.Do(&libnvm.Request{Op: libnvm.OpRead, NS: ns, LBA: 8, Blocks: 1, Mem: mem, Offset: ns.BlockSize}),
	)
	if err != nil {
		return err
	}
	fmt.Println(string(mem.Bytes()[ns.BlockSize:][:len(text)]))
	return errors.Join(mem.Free(), q.Close())
}

// What a controller and its namespaces say of themselves.
func ExampleController_Namespaces() {
	if err := identify(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// MEM0: tritier software drive (memory), writes are cached: true
	// namespace 1: 2048 blocks of 512 bytes
}

func identify(ctx context.Context) (err error) {
	d, err := drive.Open(ctx, "mem:1MiB", drive.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	info := d.Controller.Info()
	fmt.Printf("%s: %s, writes are cached: %v\n", info.Serial, info.Model, info.VolatileCache)
	all, err := d.Controller.Namespaces()
	if err != nil {
		return err
	}
	for _, ns := range all {
		fmt.Printf("namespace %d: %d blocks of %d bytes\n", ns.ID, ns.Blocks, ns.BlockSize)
	}
	return nil
}
