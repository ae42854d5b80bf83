//! A steady stream of steps allocates nothing on this side of the C API.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tlaloc_pjrt::{Argument, ElementType, Shape, Staging};

/// The system's allocator, counting what the calling thread asks for. Plugins have their own.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work; counting touches no memory that it manages.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steady_steps_allocate_nothing() {
    let Some(client) = support::client() else { return };
    let executable = support::state_step(&client, 64, true);
    let shapes = [(ElementType::I32, &[][..]), (ElementType::F32, &[1])]
        .map(|(t, d)| Shape::new(t, d).unwrap());
    let mut staging = Staging::new(&client, shapes).unwrap();
    let mut state = client.zeros(ElementType::F32, &[64]).unwrap();
    let mut step = |i: i32| {
        let values = [i.to_ne_bytes(), (i as f32).to_ne_bytes()];
        let inputs = staging.inputs_mut().unwrap();
        inputs.zip(values).for_each(|(input, value)| input.copy_from_slice(&value));
        let mut pending = executable
            .execute([
                Argument::Donate(&mut state),
                Argument::Staged(staging.input(0)),
                Argument::Staged(staging.input(1)),
            ])
            .unwrap();
        pending.wait().unwrap();
        state = pending.take(0).unwrap();
        assert_eq!(state.host_bytes().unwrap().unwrap().len(), 256);
    };
    let counted = |run: &mut dyn FnMut()| {
        let before = ALLOCATIONS.get();
        run();
        ALLOCATIONS.get() - before
    };
    // The control: the first step makes the memory that the later ones use again.
    assert_ne!(counted(&mut || step(0)), 0);
    assert_eq!(counted(&mut || (1..64).for_each(&mut step)), 0);
}
