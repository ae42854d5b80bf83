//! Buffers: the way to the device and back, and files read in place.

#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use std::path::Path;
use std::sync::Arc;

use tlaloc_pjrt::{Argument, Code, ElementType, Error, MappedFile};

#[test]
fn bytes_of_every_type_come_back() {
    let Some(client) = support::client() else { return };
    for &element_type in ElementType::ALL {
        for dims in [&[][..], &[3], &[2, 5, 7], &[4, 0]] {
            let elements = dims.iter().product::<i64>() as usize;
            // Every byte 0 or 1, so that it is a bool too.
            let bytes: Vec<u8> =
                (0..elements * element_type.bytes()).map(|i| (i % 2) as u8).collect();
            let buffer = client.upload(element_type, dims, &bytes).unwrap();
            assert_eq!((buffer.element_type(), buffer.dims()), (element_type, dims));
            assert_eq!(buffer.bytes(), bytes.len());
            let mut back = vec![9; bytes.len()];
            buffer.copy_to_host(&mut back).unwrap();
            assert_eq!(back, bytes, "{element_type} {dims:?}");
            assert_eq!(*buffer.host_bytes().unwrap().unwrap(), *bytes, "{element_type} {dims:?}");
        }
    }
}

#[test]
fn zeros_are_zeros() {
    let Some(client) = support::client() else { return };
    let buffer = client.zeros(ElementType::F32, &[1000]).unwrap();
    assert!(buffer.host_bytes().unwrap().unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let Some(client) = support::client() else { return };
    let error = client.upload(ElementType::F32, &[2], &[0; 7]).unwrap_err();
    assert_eq!(error.to_string(), "7 bytes of host memory for an array of 8 bytes (2xf32)");
    assert!(matches!(client.zeros(ElementType::F32, &[-2]), Err(Error::Shape { .. })));
    let error = client.zeros(ElementType::F32, &[1 << 50]).unwrap_err();
    assert_eq!(error.to_string(), format!("there is no host memory for {} bytes", 1_u64 << 52));
    let buffer = client.zeros(ElementType::F32, &[2]).unwrap();
    for bytes in [0, 7, 9] {
        let refused = buffer.copy_to_host(&mut vec![0; bytes]);
        assert!(matches!(refused, Err(Error::Size { needed: 8, .. })), "{bytes}");
    }
}

#[test]
fn no_room_on_the_device_is_an_error() {
    let Some(client) = support::client() else { return };
    // 2^46 bytes of address space are not to be had.
    let error = client.compile(
        "module { func.func public @main(%x: tensor<f32>) -> tensor<17592186044416xf32> {
           %y = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<17592186044416xf32>
           return %y : tensor<17592186044416xf32> } }",
    );
    let executable = error.unwrap();
    let x = client.zeros(ElementType::F32, &[]).unwrap();
    let error = executable.execute([Argument::Keep(&x)]).and_then(|mut p| p.wait()).unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted), "{error}");
}

fn weight_file(values: &[f32]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), support::f32_bytes(values)).unwrap();
    file
}

#[test]
fn a_weight_file_is_read_in_place() {
    let Some(client) = support::client() else { return };
    let values: Vec<f32> = (0..4096).map(|i| i as f32).collect();
    let on_disk = weight_file(&values);
    let file = Arc::new(MappedFile::open(on_disk.path()).unwrap());
    let weights = client.upload_mapped(&file, ElementType::F32, &[4096]).unwrap();
    assert!(weights.is_mapped());
    assert_eq!(weights.device_address(), Some(file.bytes().as_ptr().addr()));
    // The control: a copy lies elsewhere.
    let copied = client.upload(ElementType::F32, &[4096], file.bytes()).unwrap();
    assert!(!copied.is_mapped());
    assert_ne!(copied.device_address(), Some(file.bytes().as_ptr().addr()));

    // The mapping outlives its other holder and the file's name, and is gone with the buffer.
    let mapped = Arc::downgrade(&file);
    drop((file, on_disk));
    let executable = support::square_plus(&client, 4096);
    let mut pending = executable.execute([Argument::Keep(&weights)]).unwrap();
    // Dropped while the execution may still read it.
    drop(weights);
    pending.wait().unwrap();
    let output = pending.take(0).unwrap();
    let expected: Vec<f32> = values.iter().map(|x| x * x + x).collect();
    assert_eq!(support::f32_values(&output.host_bytes().unwrap().unwrap()), expected);
    assert!(mapped.upgrade().is_none());
}

#[test]
fn an_empty_weight_file_is_an_empty_array() {
    let Some(client) = support::client() else { return };
    let on_disk = weight_file(&[]);
    let file = Arc::new(MappedFile::open(on_disk.path()).unwrap());
    let weights = client.upload_mapped(&file, ElementType::F32, &[4, 0]).unwrap();
    assert!(!weights.is_mapped());
    assert!(weights.host_bytes().unwrap().unwrap().is_empty());
}

#[test]
fn dropping_cached_pages_loses_nothing() {
    let values: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
    let on_disk = weight_file(&values);
    let file = MappedFile::open(on_disk.path()).unwrap();
    file.drop_page_cache();
    assert_eq!(support::f32_values(file.bytes()), values);
}

#[test]
fn a_weight_file_of_another_size_is_refused_by_name() {
    let Some(client) = support::client() else { return };
    for elements in [0, 63, 65] {
        let on_disk = weight_file(&vec![0.0; elements]);
        let file = Arc::new(MappedFile::open(on_disk.path()).unwrap());
        let error = client.upload_mapped(&file, ElementType::F32, &[64]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "{} has {} bytes; an array of 256 bytes (64xf32) is expected",
                on_disk.path().display(),
                elements * 4
            )
        );
    }
    let error = MappedFile::open(Path::new("/nowhere/weights.bin")).unwrap_err();
    assert!(error.to_string().starts_with("cannot map /nowhere/weights.bin: "), "{error}");
}

#[repr(align(64))]
struct Aligned([u8; 128]);

/// An execution that borrows memory has ended when it can be written again.
#[test]
fn borrowed_memory_is_read_in_place() {
    let Some(client) = support::client() else { return };
    let program = support::square_plus(&client, 16);
    let mut memory = Aligned([0; 128]);
    for round in 0..100_u8 {
        let x: Vec<f32> = (0..16_u8).map(|i| f32::from(i) - f32::from(round)).collect();
        memory.0[..64].copy_from_slice(&support::f32_bytes(&x));
        let view = client.view_host(ElementType::F32, &[16], &memory.0[..64]).unwrap().unwrap();
        let mut pending = program.execute([Argument::Borrowed(&view)]).unwrap();
        drop(view);
        memory.0.fill(round);
        pending.wait().unwrap();
        let y = pending.take(0).unwrap();
        let expected: Vec<f32> = x.iter().map(|x| x * x + x).collect();
        assert_eq!(support::f32_values(&y.host_bytes().unwrap().unwrap()), expected);
    }
}

#[test]
fn memory_that_cannot_be_borrowed() {
    let Some(client) = support::client() else { return };
    let memory = Aligned([0; 128]);
    assert_eq!(client.view_alignment(), 64);
    let view = |bytes, dims: &[i64]| client.view_host(ElementType::F32, dims, bytes);
    assert!(view(&memory.0[4..68], &[16]).unwrap().is_none(), "not aligned");
    assert!(view(&[], &[0]).unwrap().is_none(), "empty");
    assert!(matches!(view(&memory.0[..60], &[16]), Err(Error::Size { .. })));
    assert!(matches!(view(&memory.0, &[-1]), Err(Error::Shape { .. })));
}

/// The output of a body that is aliased to a lent parameter is in the lent memory.
#[test]
fn outputs_are_written_to_lent_memory() {
    let Some(client) = support::client() else { return };
    let program = client
        .compile(
            "module { func.func @main(%x: tensor<16xf32>, %place: tensor<16xf32> \
             {tf.aliasing_output = 1 : i32}) -> (tensor<16xf32>, tensor<16xf32>) {
               %y = stablehlo.multiply %x, %x : tensor<16xf32>
               %z = stablehlo.add %y, %x : tensor<16xf32>
               return %y, %z : tensor<16xf32>, tensor<16xf32> } }",
        )
        .unwrap();
    let mut memory = Aligned([0; 128]);
    for round in 0..100_u8 {
        let x: Vec<f32> = (0..16_u8).map(|i| f32::from(i) - f32::from(round)).collect();
        let (input, output) = memory.0.split_at_mut(64);
        input.copy_from_slice(&support::f32_bytes(&x));
        let view = client.view_host(ElementType::F32, &[16], input).unwrap().unwrap();
        let target = client.lend_host(ElementType::F32, &[16], output).unwrap().unwrap();
        let arguments = [Argument::Borrowed(&view), Argument::Place(target)];
        let mut pending = program.execute(arguments).unwrap();
        pending.wait().unwrap();
        assert!(pending.take(1).is_none(), "it is in the lent memory");
        let expected: Vec<f32> = x.iter().map(|x| x * x + x).collect();
        assert_eq!(support::f32_values(output), expected);
        let squares: Vec<f32> = x.iter().map(|x| x * x).collect();
        let y = pending.take(0).unwrap();
        assert_eq!(support::f32_values(&y.host_bytes().unwrap().unwrap()), squares);
    }
    // Memory that was lent and never used is given back, too.
    let target = client.lend_host(ElementType::F32, &[16], &mut memory.0[..64]).unwrap().unwrap();
    drop(target);
    let target = client.lend_host(ElementType::F32, &[16], &mut memory.0[64..]).unwrap().unwrap();
    assert!(program.execute([Argument::Place(target)]).is_err(), "an argument is missing");
    assert!(client.lend_host(ElementType::F32, &[16], &mut memory.0[4..68]).unwrap().is_none());
}
