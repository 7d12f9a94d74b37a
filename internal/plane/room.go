package plane

// Room is where the data of a plane on this machine would be put.
type Room struct {
	Folder   string // below which
	InMemory bool   // it is a tmpfs
	Free     uint64 // bytes
	Quota    uint64 // bytes that etcd would be allowed
}

// RoomFor measures where a plane of such a durability ("memory" or "fsync")
// would put its data if it were started now. The error is ErrNoRoom.
func RoomFor(durability string) (Room, error) {
	r, _, err := chooseRoom(durability, rooms())
	if err != nil {
		return Room{}, err
	}
	return Room{Folder: r.base, InMemory: r.tmpfs, Free: r.free, Quota: quotaFor(r)}, nil
}
