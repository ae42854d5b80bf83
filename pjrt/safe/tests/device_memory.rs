//! Memory of others on a device, and the order in which its runtime is asked. The device is played by
//! the host.
#![allow(clippy::unwrap_used)] // helpers of tests

#[path = "support/recording.rs"]
mod recording;
mod support;

use std::sync::Arc;

use recording::{Asked, DeviceTensor, Recording};
use support::{f32_bytes, f32_values, square_plus};
use tlaloc_pjrt::{
    Argument, Client, ClientOptions, DeviceBytes, DeviceRuntime, Direction, ElementType, Error,
    Plugin, Shape, Staging,
};

/// A client whose device has memory of its own. Each test has its ordinal: clients are shared.
fn client(ordinal: i32) -> Option<(Arc<Client>, Arc<Recording>)> {
    let plugin = Plugin::load(support::plugin_path()?).unwrap();
    let runtime = Recording::new();
    let options = ClientOptions::default();
    let client = Client::shared_on(&plugin, ordinal, &options, Some(runtime.clone())).unwrap();
    assert!(Arc::ptr_eq(&client, &Client::shared(&plugin, ordinal, &options).unwrap()));
    assert!(!client.shares_host_memory() && client.reaches_device_memory());
    Some((client, runtime))
}

fn of(tensor: &DeviceTensor, ordinal: i32) -> DeviceBytes<'_> {
    // SAFETY: the tensor lives as long as the borrow, and is the test's.
    unsafe { DeviceBytes::new(tensor.address(), tensor.bytes().len(), ordinal) }
}

const N: usize = 1024;

fn values() -> Vec<f32> {
    (0..N).map(|i| i as f32 * 0.5 - 256.0).collect()
}

#[test]
fn an_array_is_read_and_written_where_the_client_has_it() {
    let Some((client, runtime)) = client(11) else { return };
    let executable = square_plus(&client, N);
    let (x, y) = (DeviceTensor::new(&f32_bytes(&values())), DeviceTensor::new(&[0; 4 * N]));
    runtime.take();
    let view = client.view_device(ElementType::F32, &[N as i64], &of(&x, 11)).unwrap().unwrap();
    let mut pending = executable.execute([Argument::Borrowed(&view)]).unwrap();
    pending.wait().unwrap();
    let result = pending.take(0).unwrap();
    assert_eq!(runtime.take(), [], "nothing is copied up to here");
    assert!(result.copy_on_device(&mut of(&y, 11)).unwrap());
    let order = [Asked::SetDevice(11), Asked::Copy(Direction::OnDevice, 4 * N), Asked::Synchronize];
    assert_eq!(runtime.take(), order);
    let expected: Vec<f32> = values().iter().map(|x| x * x + x).collect();
    assert_eq!(f32_values(&y.bytes()), expected);
    assert_eq!(f32_values(&x.bytes()), values(), "the input is as it was");
}

#[test]
fn memory_that_cannot_be_read_in_place_is_no_view() {
    let Some((client, _)) = client(12) else { return };
    let x = DeviceTensor::new(&[0; 256]);
    let at = |offset: usize, byte_size: usize, ordinal| {
        // SAFETY: inside the tensor.
        let bytes = unsafe { DeviceBytes::new(x.address() + offset, byte_size, ordinal) };
        client.view_device(ElementType::F32, &[16], &bytes)
    };
    assert!(at(0, 64, 12).unwrap().is_some());
    assert!(at(64, 64, 12).unwrap().is_some());
    assert!(at(4, 64, 12).unwrap().is_none(), "not aligned");
    assert!(at(0, 64, 13).unwrap().is_none(), "another device's");
    assert!(matches!(at(0, 60, 12), Err(Error::Size { needed: 64, found: 60, .. })));
}

#[test]
fn copies_to_and_from_the_host() {
    let Some((client, runtime)) = client(14) else { return };
    let tensor = DeviceTensor::new(&[1, 2, 3]);
    let mut read = [0; 3];
    client.copy_to_host(&of(&tensor, 0), &mut read).unwrap();
    assert_eq!(read, [1, 2, 3]);
    assert_eq!(runtime.take(), [Asked::SetDevice(14), Asked::Copy(Direction::ToHost, 3)]);
    client.copy_to_device(&[4, 5, 6], &mut of(&tensor, 0)).unwrap();
    assert_eq!(tensor.bytes(), [4, 5, 6]);
    let order = [Asked::SetDevice(14), Asked::Copy(Direction::ToDevice, 3), Asked::Synchronize];
    assert_eq!(runtime.take(), order);

    let wrong = client.copy_to_host(&of(&tensor, 0), &mut [0; 4]);
    assert!(matches!(wrong, Err(Error::Lengths { needed: 3, found: 4 })));
    runtime.refuse(Some(Direction::ToHost));
    let refused = client.copy_to_host(&of(&tensor, 0), &mut read).unwrap_err();
    assert_eq!(refused.to_string(), "copy failed: refused");
}

#[test]
fn staged_inputs_are_mapped_memory_of_the_device() {
    let Some((client, runtime)) = client(15) else { return };
    let executable = square_plus(&client, 16);
    runtime.take();
    let shape = Shape::new(ElementType::F32, &[16]).unwrap();
    let mut staging = Staging::new(&client, [shape.clone(), shape]).unwrap();
    assert_eq!(runtime.take(), [Asked::SetDevice(15), Asked::Allocate(512)]);
    for step in 0..3 {
        let x: Vec<f32> = (0..16).map(|i| (i + step) as f32).collect();
        staging.inputs_mut().unwrap().nth(1).unwrap().copy_from_slice(&f32_bytes(&x));
        let mut pending = executable.execute([Argument::Staged(staging.input(1))]).unwrap();
        assert!(matches!(staging.inputs_mut().map(|_| ()), Err(Error::StagingInUse)));
        pending.wait().unwrap();
        let result = pending.take(0).unwrap();
        assert!(
            result.host_bytes().unwrap().is_none(),
            "the host does not see the device's memory"
        );
        let mut y = [0; 64];
        result.copy_to_host(&mut y).unwrap();
        let expected: Vec<f32> = x.iter().map(|x| x * x + x).collect();
        assert_eq!(f32_values(&y), expected);
    }
    assert_eq!(runtime.take(), [], "a step asks nothing of the runtime");
    drop(staging);
    assert_eq!(runtime.take(), [Asked::SetDevice(15), Asked::Free(512)]);
}

/// Control: the double shows a copy that nobody has waited for.
#[test]
fn a_copy_on_the_device_is_late() {
    let runtime = Recording::new();
    let (from, to) = (DeviceTensor::new(&[7; 4]), DeviceTensor::new(&[0; 4]));
    runtime.set_device(0).unwrap();
    let (to_address, from_address) = (to.address() as *mut u8, from.address() as *const u8);
    // SAFETY: both have four bytes, and are this test's.
    unsafe { runtime.copy(Direction::OnDevice, to_address, from_address, 4) }.unwrap();
    assert_eq!(to.bytes(), [0; 4]);
    runtime.synchronize().unwrap();
    assert_eq!(to.bytes(), [7; 4]);
}

#[test]
fn a_client_of_the_cpu_reaches_no_other_device() {
    let Some(client) = support::client() else { return };
    assert!(client.stages_inputs() && !client.reaches_device_memory());
    let tensor = DeviceTensor::new(&[0; 64]);
    let viewed = client.view_device(ElementType::F32, &[16], &of(&tensor, 0)).unwrap();
    assert!(viewed.is_none());
}
