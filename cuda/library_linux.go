//go:build linux && !android && (amd64 || arm64)

package cuda

// libraryNames are what openLibrary gives to the dynamic linker, in order:
// by name, and where containers and WSL put the library when the linker's
// cache does not know of it.
var libraryNames = []string{
	"libcuda.so.1",
	"libcuda.so",
	"/usr/local/nvidia/lib64/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
}

// library is the driver's shared library.
type library struct {
	entry [numSymbols]uintptr // 0: not exported
}

// openLibrary loads the library and looks up every function once.
func openLibrary() (Backend, error) {
	handle, err := loadFirst(libraryNames)
	if err != nil {
		return nil, err
	}
	l := new(library)
	for _, s := range Symbols() {
		l.entry[s] = linkerSymbol(handle, s.String())
	}
	return l, nil
}

// loadFirst loads the first library of the list that loads.
func loadFirst(names []string) (uintptr, error) {
	var last error
	for i, name := range names {
		handle, err := linkerOpen(name)
		if err == nil {
			return handle, nil
		}
		// The first name's reason is kept: what the others say is only
		// that they, too, are not there.
		if i == 0 {
			last = err
		}
	}
	return 0, &MissingLibraryError{Tried: names, Reason: last.Error()}
}

func (l *library) Has(s Symbol) bool { return l.entry[s] != 0 }

func (l *library) Call(s Symbol, args []uintptr) Result {
	if l.entry[s] == 0 {
		return NotSupported
	}
	return Result(uint32(callC(l.entry[s], args)))
}
